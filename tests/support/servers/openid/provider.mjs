// oidc-provider (npm) on loopback for the tests of the sign-in: `node provider.mjs NODE_MODULES OPTIONS`. It prints its address.
// People sign in with any password. OPTIONS: {people, inToken, cert, key, port}. Each start has a signing key of its own.
import { generateKeyPairSync } from "node:crypto";
import { createServer as plain } from "node:http";
import { createServer as tls } from "node:https";
import { pathToFileURL } from "node:url";

const [modules, text] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`).href);
const { people, inToken = false, cert, key, port = 0 } = JSON.parse(text);
const server = cert ? tls({ cert, key }) : plain();
await new Promise((done) => server.listen(port, "127.0.0.1", done));
const issuer = `${cert ? "https" : "http"}://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "assay",
      client_secret: "a secret: with%signs+",
      id_token_signed_response_alg: "ES256",
      redirect_uris: ["http://127.0.0.1/sign-in/callback"],
      post_logout_redirect_uris: ["http://127.0.0.1/"],
    },
  ],
  jwks: { keys: [{ ...generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }), use: "sig" }] },
  claims: { openid: ["sub", "org", "groups"] },
  conformIdTokenClaims: !inToken, // otherwise they are at the userinfo endpoint alone
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...people[id] }) }),
  pkce: { required: () => true },
  cookies: { keys: ["one", "two"] },
});
const ours = (address) => address.startsWith("http://127.0.0.1:"); // the port of assay is not known yet
provider.Client.prototype.redirectUriAllowed = (address) => ours(address) && address.endsWith("/sign-in/callback");
provider.Client.prototype.postLogoutRedirectUriAllowed = ours;
server.on("request", provider.callback());
console.log(issuer);
process.stdin.resume(); // it ends with the process that started it
process.stdin.on("end", () => process.exit(0));
