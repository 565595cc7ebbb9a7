"""Who may be asked, how one is chosen, what is never shown (FEP-17, FEP-39), and `assay providers`."""

import json

import pytest

from assay import InvalidRequest, settings
from assay.backends import provider_config as provider_tables
from assay.backends.provider_config import InvalidProviderConfig, ProviderPolicy
from assay.backends.providers import ConfiguredProviders
from assay.errors import UsageError
from assay.host import parts
from assay.host.host import host_services
from assay.ports import Prices, Provider, Secret
from assay.protocol.redaction import without_secrets
from support.models.judges import CANARY, configure, evaluate, judge
from support.models.provider_server import ProviderServer

LOCAL = Provider(
    name="local", base_url="http://127.0.0.1:9/v1", api_key=Secret("sk-local-key"), max_concurrency=8
)
OTHER = Provider(name="other", base_url="http://127.0.0.1:8/v1", requests_per_minute=60)
ENVIRONMENT = {"MY_KEY": CANARY, "MY_HOST": "http://127.0.0.1:7/v1", "EMPTY": ""}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server():
    with ProviderServer() as server:
        yield server


def providers(*known, models=None, **policy):
    return ConfiguredProviders(
        {one.name: one for one in known},
        models or {},
        environment=ENVIRONMENT,
        policy=ProviderPolicy(**policy),
    )


def chosen(known, provider_config, model_config):
    """The provider and the model that a judge would ask."""
    model, ask = known.model(provider_config, model_config)
    return getattr(
        model, "_inner", model
    )._line.provider, ask.model  # it may be watched: its calls are counted


MODELS = {"judge": "local:llama3:8b", "fast": "other:small"}


@pytest.mark.parametrize(
    ("provider_config", "model_config", "provider", "model"),
    [
        (None, None, "local", "llama3:8b"),  # [models] judge; a model's own name may hold colons
        (None, {"temperature": 0}, "local", "llama3:8b"),
        (None, {"model": "fast"}, "other", "small"),  # a name under [models]
        (None, {"model": "other:big"}, "other", "big"),
        (None, {"model": "llama3:70b"}, "local", "llama3:70b"),  # no provider is called llama3
        ({"provider_name": "other"}, {"model": "big"}, "other", "big"),
        (
            {"provider_name": "other"},
            {"model": "local:x"},
            "other",
            "local:x",
        ),  # the check names the provider
        ({"provider_name": "local"}, None, "local", "llama3:8b"),
        ({"timeout": 5}, None, "local", "llama3:8b"),
        ({"base_url": "https://api.example.com/v1", "api_key": "k"}, {"model": "m"}, "api.example.com", "m"),
        ({"provider_name": "new", "base_url": "http://h/v1"}, {"model": "m"}, "new", "m"),
    ],
)
def test_the_provider_and_model_of_a_check(provider_config, model_config, provider, model):
    found, name = chosen(providers(LOCAL, OTHER, models=MODELS), provider_config, model_config)
    assert (found.name, name) == (provider, model)


@pytest.mark.parametrize(
    ("known", "provider_config", "model_config", "place", "message"),
    [
        ([], None, None, "provider_config", "there is no provider for a judgement: set OPENAI_API_KEY"),
        ([LOCAL], None, None, "model_config.model", "expected a model of 'local'; set it here, or judge under [models]"),
        ([LOCAL, OTHER], None, {"model": "m"}, "provider_config", "expected provider_name, one of"),
        ([LOCAL], {"provider_name": "vibes"}, {"model": "m"}, "provider_config.provider_name", "no provider 'vibes'; there are wordllama, local"),
        ([LOCAL], {"provider_name": "openai"}, {"model": "m"}, "provider_config.provider_name", "set OPENAI_API_KEY"),
        ([LOCAL], {"provider_name": "wordllama"}, {"model": "m"}, "provider_config", "has only embeddings; it cannot judge"),
        ([LOCAL], {"provider_name": 5}, {"model": "m"}, "provider_config.provider_name", "expected a name"),
        ([LOCAL], {"base_urls": "x"}, {"model": "m"}, "provider_config.base_urls", "no such setting of a provider; there are kind, base_url"),
        ([LOCAL], {"kind": "gemini"}, {"model": "m"}, "provider_config.kind", "expected one of anthropic, openai_compatible, scripted, wordllama, got 'gemini'"),
        ([LOCAL], {"kind": "sk-0123456789abcdefgh"}, {"model": "m"}, "provider_config.kind", "got '[REDACTED:openai-key]'"),
        ([LOCAL], {"timeout": "soon"}, {"model": "m"}, "provider_config.timeout", "expected a number"),
        ([LOCAL], {"timeout": 0}, {"model": "m"}, "provider_config.timeout", "> 0"),
        ([LOCAL], {"max_concurrency": 0}, {"model": "m"}, "provider_config.max_concurrency", ">= 1"),
        ([LOCAL], {"prices": {"input": -1}}, {"model": "m"}, "provider_config.prices.input", ">= 0"),
        ([LOCAL], {"api_key": 5}, {"model": "m"}, "provider_config.api_key", "expected a key"),
        ([LOCAL], {"api_key": "${NOT_SET}"}, {"model": "m"}, "provider_config.api_key", "the environment has no NOT_SET"),
        ([LOCAL], {"api_key": "${EMPTY}"}, {"model": "m"}, "provider_config.api_key", "the environment has no EMPTY"),
        ([LOCAL], {"base_url": "ftp://h"}, {"model": "m"}, "provider_config.base_url", "expected an address"),
        ([LOCAL], {"base_url": "no address"}, {"model": "m"}, "provider_config.base_url", "expected an address"),
        ([LOCAL], {"base_url": "http://[::1"}, {"model": "m"}, "provider_config.base_url", "expected an address"),
        ([LOCAL], {"base_url": "http://u:hunter2@h/v1"}, {"model": "m"}, "provider_config.base_url", "without user"),
        ([LOCAL], {"base_url": "http://h/v1?key=hunter2"}, {"model": "m"}, "provider_config.base_url", "without user"),
        ([LOCAL], {"base_url": "https://api.openai.com/v1"}, {"model": "m"}, "provider_config", "has no key"),
        ([Provider(name="openai")], None, {"model": "m"}, "provider_config", "provider 'openai' has no key; set OPENAI_API_KEY"),
        ([Provider(name="p", base_url="http://h", api_key=Secret("${NOT_SET}"))], None, {"model": "m"}, "provider_config", "[providers.p] api_key: ${NOT_SET}"),
    ],
)  # fmt: skip
def test_an_invalid_choice_of_a_provider_is_refused_with_its_place(
    known, provider_config, model_config, place, message
):
    with pytest.raises(InvalidRequest) as refusal:
        providers(*known).model(provider_config, model_config)
    (problem,) = refusal.value.problems
    assert problem.place == place
    assert message in problem.message
    assert "hunter2" not in str(refusal.value)


def test_a_model_of_an_unknown_provider_is_refused():
    with pytest.raises(InvalidRequest, match="expected PROVIDER:MODEL of a provider that is configured"):
        providers(LOCAL, models={"judge": "vibes:m"}).model(None, None)


def test_parts_of_a_described_provider_win_over_the_configured_one():
    known = providers(LOCAL)
    found, _ = chosen(
        known, {"base_url": "${MY_HOST}", "api_key": "${MY_KEY}", "max_retries": 0}, {"model": "m"}
    )
    assert found.base_url == "http://127.0.0.1:7/v1"
    assert found.api_key.reveal() == CANARY
    found, _ = chosen(known, {"provider_name": "local", "timeout": 3}, {"model": "m"})
    assert (found.timeout, found.api_key, found.max_concurrency) == (3, LOCAL.api_key, 8)
    found, _ = chosen(known, {"prices": {"input": 2}}, {"model": "m"})
    assert found.prices == Prices(input=2)


def test_a_key_goes_only_to_the_address_it_was_configured_for():
    found, _ = chosen(
        providers(LOCAL), {"provider_name": "local", "base_url": "http://evil/v1"}, {"model": "m"}
    )
    assert (found.base_url, found.api_key) == ("http://evil/v1", None)
    found, _ = chosen(
        providers(LOCAL), {"provider_name": "local", "base_url": LOCAL.base_url}, {"model": "m"}
    )
    assert found.api_key == LOCAL.api_key
    claude = Provider(name="claude", kind="anthropic", api_key=Secret(CANARY))
    with pytest.raises(InvalidRequest, match="has no key"):  # another kind is another address
        providers(claude).model({"provider_name": "claude", "kind": "openai_compatible"}, {"model": "m"})


def test_a_key_of_anthropic_in_the_environment_changes_no_default():
    openai = Provider(name="openai", api_key=Secret(CANARY))
    claude = Provider(name="anthropic", kind="anthropic", api_key=Secret(CANARY))
    assert chosen(providers(claude), None, {"model": "m"})[0].name == "anthropic"
    assert chosen(providers(openai, claude), None, {"model": "m"})[0].name == "openai"
    assert chosen(providers(openai, claude), None, {"model": "anthropic:m"})[0].name == "anthropic"
    with pytest.raises(InvalidRequest, match="of the kind anthropic, which has no embeddings"):
        providers(claude).embedding({"provider_name": "anthropic"}, {"model": "m"})


@pytest.mark.parametrize(
    "described",
    [
        {"base_url": "http://169.254.169.254/latest"},
        {"api_key": "sk-mine"},
        {"api_key": "${MY_KEY}"},
        {"provider_name": "local", "base_url": "http://evil/v1"},
        {"provider_name": "local", "timeout": 100000},
        {"prices": {"input": 0}},
        {"kind": "wordllama"},
    ],
)
def test_a_request_to_a_server_may_only_name_a_provider(described):
    known = providers(LOCAL, models=MODELS | {"judge": "local:m"}, trusted=False)
    with pytest.raises(
        InvalidRequest, match="a request may only name a provider that this host has configured"
    ):
        known.model(described, {"model": "m"})
    assert chosen(known, {"provider_name": "local"}, {"model": "m"})[0].name == "local"
    assert chosen(known, None, None)[0].name == "local"
    with pytest.raises(InvalidRequest, match="no provider"):
        known.model({"provider_name": "${MY_KEY}"}, {"model": "m"})


def test_a_provider_has_one_queue():
    known = providers(LOCAL)
    assert not known.remote
    one, other = (known.model(None, {"model": "m"})[0] for _ in range(2))
    assert one is other
    assert known.model(None, {"model": "another"})[0] is one
    assert known.model({"timeout": 3}, {"model": "m"})[0] is not one
    assert known.remote


def test_the_policy_bounds_time_and_shares_what_is_allowed():
    known = providers(LOCAL, OTHER, seconds=5, share=4)
    found, _ = chosen(known, {"provider_name": "local"}, {"model": "m"})
    assert (found.deadline, found.max_concurrency) == (5, 2)
    assert chosen(known, {"provider_name": "other"}, {"model": "m"})[0].requests_per_minute == 15
    _, ask = known.model({"provider_name": "local"}, {"model": "m"})
    assert ask.timeout == 5


@pytest.mark.parametrize(("processes", "requests"), [(1, 8), (4, 2), (100, 1)])
def test_processes_of_a_server_share_the_limits_of_a_provider(processes, requests):
    provider = Provider(name="home", base_url="http://127.0.0.1:9/v1", max_concurrency=8)
    services = host_services(settings.Settings(providers={"home": provider}), processes)
    found, _ = chosen(services.providers, {"provider_name": "home"}, {"model": "m"})
    assert found.max_concurrency == requests


def test_a_missing_extra_is_refused_with_the_line_that_installs_it(folder, server, monkeypatch):
    configure(folder, server, prices=None)
    monkeypatch.setattr("assay.extras.find_spec", lambda name: None)
    with pytest.raises(
        InvalidRequest,
        match=r"checks\[0\]: a model needs aiohttp, genai-prices: pip install 'openassay\[judges\]'",
    ):
        evaluate(judge())
    with pytest.raises(
        InvalidRequest, match=r"similarity needs wordllama: pip install 'openassay\[similarity\]'"
    ):
        evaluate({"type": "semantic_similarity", "arguments": {"text": "a", "reference": "b"}})


# settings


def test_settings_read_providers_and_models(folder):
    (folder / "assay.toml").write_text(
        '[providers.local]\nbase_url = "${MY_HOST}"\napi_key = "${MY_KEY}"\ntimeout = 5\n'
        'prices = {input = 0.5, output = 1}\n[models]\njudge = "local:m"\nfast = "local:s"\n'
    )
    found = settings.load({"ASSAY_MODEL_JUDGE": "local:other"})
    assert found.models == {"judge": "local:other", "fast": "local:s"}
    local = found.providers["local"]
    assert (local.timeout, local.prices) == (5.0, Prices(input=0.5, output=1.0))
    assert local.api_key.reveal() == "${MY_KEY}"  # filled in when it is used
    assert CANARY not in repr(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("providers = 1", "providers: expected a table"),
        ("[providers]\nlocal = 1", "providers.local: expected a table"),
        ('[providers.local]\nurl = "x"', "providers.local.url: no such setting of a provider"),
        ("[providers.local]\napi_key = 1", "providers.local.api_key: expected a key"),
        ("[providers.local]\ntimeout = -1", "providers.local.timeout: expected"),
        ("models = 1", "models: expected a table"),
        ("[models]\njudge = 1", "models"),
    ],
)
def test_invalid_provider_settings_are_refused(folder, text, message):
    (folder / "assay.toml").write_text(text)
    with pytest.raises(UsageError, match="settings: ") as refusal:
        settings.load({})
    assert message in str(refusal.value)


def test_a_provider_that_is_not_used_need_not_be_complete(folder):
    (folder / "assay.toml").write_text('[providers.unused]\nbase_url = "http://h"\napi_key = "${NOT_SET}"\n')
    (result,) = evaluate({"type": "exact_match", "arguments": {"actual": "a", "expected": "a"}})
    assert result.results == {"passed": True}


@pytest.mark.parametrize(
    ("environment", "known"),
    [
        ({}, None),
        ({"OPENAI_API_KEY": "sk-1"}, (None, "sk-1")),
        ({"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://h/v1"}, ("http://h/v1", "sk-1")),
        ({"OPENAI_API_KEY": ""}, None),
    ],
)
def test_an_openai_key_alone_is_a_provider(environment, known):
    found = parts.providers(settings.Settings(), ProviderPolicy(), environment=environment).known.get(
        "openai"
    )
    assert (found and (found.base_url, found.api_key and found.api_key.reveal())) == known


def test_settings_of_openai_win_over_its_variable():
    values = settings.Settings(providers={"openai": Provider(name="openai", base_url="http://mine/v1")})
    found = parts.providers(values, ProviderPolicy(), environment={"OPENAI_API_KEY": "sk-1"}).known["openai"]
    assert (found.base_url, found.api_key) == ("http://mine/v1", None)


def test_an_error_of_a_table_does_not_repeat_its_values():
    with pytest.raises(InvalidProviderConfig) as wrong:
        provider_tables.read("p", {"timeout": CANARY})
    assert CANARY not in str(wrong.value)


# what is not shown


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({"api_key": "x", "timeout": 30}, {"api_key": "[REDACTED]", "timeout": 30}),
        ({"apiKey": "x", "APIKEY": "y", "OPENAI_API_KEY": "z"}, dict.fromkeys(("apiKey", "APIKEY", "OPENAI_API_KEY"), "[REDACTED]")),
        ({"headers": {"Authorization": "Bearer x", "X-Auth-Token": "t", "Accept": "json"}}, {"headers": {"Authorization": "[REDACTED]", "X-Auth-Token": "[REDACTED]", "Accept": "json"}}),
        ({"credentials": {"user": "u"}, "password": 1234}, {"credentials": "[REDACTED]", "password": "[REDACTED]"}),
        ({"client_secret": ["a"], "accessToken": "x"}, {"client_secret": "[REDACTED]", "accessToken": "[REDACTED]"}),
        ({"api_key": "${OPENAI_API_KEY}"}, {"api_key": "[REDACTED]"}),
        ({"max_tokens": 50, "max_completion_tokens": 9}, {"max_tokens": 50, "max_completion_tokens": 9}),  # a number of them
        ({"tokens": ["a"]}, {"tokens": "[REDACTED]"}),
        ({"api_key": None}, {"api_key": None}),
        ({"base_url": "https://u:p@h.example/v1"}, {"base_url": "https://[REDACTED]@h.example/v1"}),
        ({"base_url": "https://h/v1?key=1"}, {"base_url": "https://h/v1?[REDACTED]"}),
        ({"list": [{"secret": 1}, "https://u@h"]}, {"list": [{"secret": "[REDACTED]"}, "https://[REDACTED]@h"]}),
        ({"provider_name": "openai", "base_url": "https://h/v1"}, {"provider_name": "openai", "base_url": "https://h/v1"}),
    ],
)  # fmt: skip
def test_secrets_are_found_by_their_names(config, shown):
    assert without_secrets(config) == shown


def test_resolved_arguments_hide_configuration_and_not_schemas(folder, server):
    configure(folder, server)
    schema = {"type": "object", "properties": {"api_key": {"type": "string"}, "why": {"type": "string"}}}
    (result,) = evaluate(judge(schema=schema, provider_config={"api_key": CANARY}, model="ok"))
    shown = result.resolved_arguments
    assert shown["provider_config"].value == {"api_key": "[REDACTED]"}
    assert shown["response_format"].value == schema
    assert shown["model_config"].value == {"model": "ok"}
    assert server.seen[0].headers["authorization"] == f"Bearer {CANARY}"  # it was used all the same


# the command


def test_providers_check_calls_every_model_once(folder, server, command):
    configure(folder, server, {"embedding": "local:ok", "other": "local:plain"})
    done = command("providers", "check", folder=folder)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[1].startswith("local     judge      ok")
    assert "ms, for $0.0000" in lines[1]
    assert lines[1].endswith(", structured")
    assert lines[3].endswith("schema in the prompt")
    paths = [seen.path.rpartition("/")[2] for seen in server.seen]
    assert paths == ["completions", "embeddings", "completions", "completions"]  # `plain` refuses once


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("leak:401", "does not work: provider 'local' answered 401 (Unauthorized); check its api_key"),
        ("leak:404", "check its base_url and the model's name"),
        ("hang", "gave no answer"),
        ("prose", "the model answered, but not in the requested format"),
        ("wrong", "the model answered, but not in the requested format"),
    ],
)
def test_providers_check_shows_why_a_model_failed(folder, server, command, script, message):
    configure(folder, server, {"judge": f"local:{script}"}, max_retries=0)
    done = command("providers", "check", folder=folder)
    assert done.code == 1
    assert message in done.out
    assert CANARY[:12] not in done.out + done.err
    if script == "prose":
        (row, _) = json.loads(command("providers", "check", "--json", folder=folder).out)
        assert (row["provider"], row["model"], row["works"]) == ("local", script, False)


def test_a_model_without_its_provider_names_the_missing_setting(folder, server, command):
    configure(folder, server, {"judge": "plain"})
    done = command("providers", "check", folder=folder)
    assert done.code == 1
    assert "does not work: expected PROVIDER:MODEL, got 'plain'" in done.out
    assert not server.seen


def test_a_provider_without_a_model_is_not_called(folder, server, command):
    configure(folder, server)
    (folder / "assay.toml").write_text((folder / "assay.toml").read_text().partition("[models]")[0])
    done = command("providers", "check", folder=folder)
    assert done.code == 0  # wordllama works
    assert "not called: it has no model under [models]" in done.out
    assert not server.seen


def test_a_key_is_listed_by_its_source(folder, server, command):
    configure(folder, server, {"embedding": "wordllama:wordllama"})
    with (folder / "assay.toml").open("a") as file:
        file.write('\n[providers.cloud]\nbase_url = "https://u:hunter2@h/v1"\napi_key = "${NOT_SET}"\n')
    done = command("providers", "list", folder=folder)
    assert done.code == 0
    rows = [line.split("  ") for line in done.out.splitlines()]
    listed = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    assert listed["wordllama"] == ["offline", "–", "embedding = wordllama"]
    assert listed["local"] == [server.base_url, "in the settings", "judge = ok"]
    assert listed["cloud"] == ["https://h/v1", "${NOT_SET} (not set)", "–"]
    asked = command("providers", "list", "--json", folder=folder).out
    assert [one["provider"] for one in json.loads(asked)] == ["wordllama", "local", "cloud"]
    assert CANARY not in done.out + asked
    assert "hunter2" not in done.out + asked
