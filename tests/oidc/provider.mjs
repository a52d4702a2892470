// The identity provider of try.sh: `oidc-provider`, an implementation that the OpenID Foundation has certified,
// with its own login pages for trials. Anybody may log in with any password: ada as s-ada.
//
// Usage: node provider.mjs PORT CALLBACK BACK_CHANNEL_LOGOUT SECRET
import Provider from 'oidc-provider';

const [port, callback, logout, secret] = process.argv.slice(2);
const device = 'urn:ietf:params:oauth:grant-type:device_code';
const groups = { ada: ['/lab/vision', '/lab/all'], bob: [], admin: [] };
// Another name than the subject, as with most providers.
const name = (id) => id.replace(/^s-/, '');
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'muster',
    client_secret: secret,
    redirect_uris: [callback],
    response_types: ['code'],
    grant_types: ['authorization_code', device],
    backchannel_logout_uri: logout,
    backchannel_logout_session_required: true,
  }],
  claims: { openid: ['sub'], profile: ['preferred_username', 'uid'], email: ['email'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'email', 'groups'],
  // What scopes ask for stands in the ID token, as with Keycloak and Dex.
  conformIdTokenClaims: false,
  features: { deviceFlow: { enabled: true }, backchannelLogout: { enabled: true } },
  pkce: { required: () => true, methods: ['S256'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      preferred_username: name(id),
      email: `${name(id)}@example.org`,
      uid: 1017,
      groups: groups[name(id)] ?? [],
    }),
  }),
});
provider.on('backchannel.error', (_, error) => console.error('logout is not taken:', error.message, error.response?.body?.toString()));
provider.on('end_session.error', (_, error) => console.error('nobody is logged out:', error.message));
provider.listen(Number(port), '127.0.0.1');
