r"""The help text of the verbs of `assay admin`, `assay pack` and `assay providers`, as in `help.py`."""

ADMIN = {
    "admin": """Manage keys, the audit log, erasure and encryption.

\b
    assay admin key create --tenant acme --expires 90d
    assay admin delete eval_4f2c

These verbs use the store of this machine: ASSAY_DATABASE_URL, or assay.db in ASSAY_HOME.
""",
    "admin delete": """Erase the content of stored runs, or all content of a tenant.

\b
    assay admin delete eval_4f2c
    assay admin delete --all --tenant acme --dry-run

Inputs, outputs, results, annotations and the stored responses of Idempotency-Keys are erased, and cannot be restored.
The log, the scorecard and the audit log stay. A run that has not ended is refused. Forks of the run are runs of their
own.

With --all the command deletes the content of all runs of the tenant, its suites, packs, agent memory and stored
responses. In an encrypted store it also destroys the data key of the tenant.
""",
    "admin gc": """Remove the content of old runs, by a retention policy.

\b
    assay admin gc --dry-run
    assay admin gc --tenant acme

The policies are in `[retention]` of assay.toml. Inputs, outputs, results and annotations go; scorecards, logs and the
audit log stay. These runs keep their content at any age: runs that have not ended, the newest runs (`keep_last`), the
eval runs of deployments, and the baselines of runs that keep theirs. A server may run at the same time. If the command
is interrupted, run it again.

Exit codes: 0 done; 2 there is no policy.
""",
    "admin rekey": """Encrypt the data keys with the newest evidence key.

\b
    ASSAY_EVIDENCE_KEY="new:$NEW,old:$OLD" assay admin rekey

Unencrypted records are encrypted with the data key of their tenant. Afterwards the older keys are no longer needed. A
server with the same keys may run at the same time. If the command is interrupted, run it again: it continues where it
stopped.
""",
    "admin migrate": """Create the tables of the database, or migrate them.

\b
    assay admin migrate && assay serve

The first process that opens a database does this too, and the others wait for it. With this command it is a step of its
own, before servers and workers start. It changes nothing if the tables are those of this version.

Exit codes: 0 the tables are those of this version; 1 the database does not answer; 2 a newer assay wrote it.
""",
    "pack": """Build, verify and install packs of agents and suites.

\b
    assay pack build shop --key acme.pem
    assay pack install local.acme.shop-1.0.0.tgz --public-key acme.pub
    assay run --agent local.acme.shop.bot

A pack is a tarball with a pack.json, prompts, schemas and suites.
""",
    "pack build": """Build a pack from a folder with a pack.json.

It writes NAME-VERSION.tgz, the version manifest NAME-VERSION.json with the digest of the tarball, and with --key the
signature NAME-VERSION.sig. The same files give the same bytes on every machine.

\b
    openssl genpkey -algorithm ed25519 -out acme.pem
    openssl pkey -in acme.pem -pubout -out acme.pub
""",
    "pack verify": """Verify a pack without installing it.

A pack whose name begins with neither private. nor local. needs a signature by a key of --public-key or [pack_keys], and
its digest in --manifest or --integrity.

Exit codes: 0 the pack can be installed here; 3 it cannot.
""",
    "pack install": """Verify a pack and install it in the store.

A version cannot be changed: the same files again are accepted, others are refused, also after the pack was removed.
A pack whose name begins with neither private. nor local. needs a signature by a key of --public-key or [pack_keys], and
its digest in --manifest or --integrity.
""",
    "pack list": "List the installed packs.",
    "pack show": "Show an installed pack: its trust, agents, suites and files.",
    "pack remove": """Remove an installed pack.

Runs keep what they need: they can be shown, exported and resumed.
""",
    "providers": """List and check the providers of judges and embeddings.

\b
    assay providers check

They are [providers.NAME] and [models] in assay.toml, `openai` if OPENAI_API_KEY is set, and `anthropic` if
ANTHROPIC_API_KEY is set. A provider without a model under [models] is not checked.
""",
    "providers list": """List the providers and their models.

It shows where a key comes from, never the key.
""",
    "providers check": """Call every model under [models] once.

It prints whether the model works, how long it took and what it cost.

Exit codes: 0 all of them work; 1 one does not, or there was no model to call.
""",
    "admin key": """Create, list and revoke API keys.

\b
    assay admin key create --tenant acme --scope evaluations:create --expires 90d

The keys are in the store of the server: ASSAY_DATABASE_URL, else assay.db in ASSAY_HOME. The server need not run. A
running server accepts a new key at once and refuses a revoked key within five seconds.
""",
    "admin key create": """Create an API key and print it on standard output.

The key cannot be shown again. No scope implies another. Scopes:

\b
    evaluations:create   start evaluations
    evaluations:read     read evaluations, their results and the catalogue of checks
    evaluations:cancel   cancel evaluations
    runs:create          start and fork runs
    runs:read            read runs, their events, summaries and reports
    runs:cancel          cancel runs
    runs:delete          erase the content of runs and evaluations
    deploy:promote       promote versions of agents, and adjust their canary percentages
    deploy:pause         pause and deprecate versions of agents
    deploy:rollback      roll versions of agents back
    approvals:respond    answer a run that waits for a person
    manifest:read        read agents and workflows
    agents:write         register and remove agents of the tenant
    suites:read          read suites
    suites:write         store suites
    packs:publish        install packs
    packs:yank           remove packs
    traces:write         send traces that are scored
    keys:manage          create, list and revoke keys of the tenant
    metrics:read         read the metrics of the server
    everything           all of these but metrics:read, which is about all tenants

Without --scope the key has everything except keys:manage and the deploy scopes.
""",
    "admin key list": """List API keys, oldest first.

The list has expired and revoked keys too. The keys themselves are not shown.
""",
    "admin key revoke": "Revoke an API key for good.",
    "admin audit": """Read the audit log, or verify that it is unchanged.

\b
    assay admin audit show --run eval_2f6e
""",
    "admin audit show": """Show the audit log, by tenant and time.

\b
    assay admin audit show --run eval_2f6e
""",
    "admin audit verify": """Verify that the audit log is complete and unchanged.

\b
    assay admin audit verify --json > heads.json
    assay admin audit verify --heads heads.json

No entry may have been changed, removed or moved. Keep the heads of the first command in another place: the second
command then also finds a log that was rewritten, or cut off together with the heads in the store.

Exit codes: 0 the log is intact; 3 it is not.
""",
}
