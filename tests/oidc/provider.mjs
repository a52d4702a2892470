// The identity provider of try.sh: `oidc-provider`, an implementation that the OpenID Foundation has certified,
// with its own login pages for trials. Anybody may log in with any password.
//
// Usage: node provider.mjs PORT CALLBACK SECRET
import Provider from 'oidc-provider';

const [port, callback, secret] = process.argv.slice(2);
const groups = { ada: ['/lab/vision', '/lab/all'], bob: [], admin: [] };
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'muster',
    client_secret: secret,
    redirect_uris: [callback],
    response_types: ['code'],
    grant_types: ['authorization_code'],
  }],
  claims: { openid: ['sub'], profile: ['preferred_username', 'uid'], email: ['email'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'email', 'groups'],
  // What scopes ask for stands in the ID token, as with Keycloak and Dex.
  conformIdTokenClaims: false,
  pkce: { required: () => true, methods: ['S256'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: `subject-of-${id}`,
      preferred_username: id,
      email: `${id}@example.org`,
      uid: 1017,
      groups: groups[id] ?? [],
    }),
  }),
});
provider.listen(Number(port), '127.0.0.1');
