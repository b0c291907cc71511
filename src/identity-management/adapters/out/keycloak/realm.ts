export interface RealmOptions {
  readonly realm: string;
  /** The `clientId` of the API, whose client roles are the permissions; what tokens carry as `aud`. */
  readonly audience: string;
  /** What the API's clients may be permitted from the beginning. */
  readonly permissions: readonly string[];
  /** The confidential client that the service is in Keycloak, made with this secret. */
  readonly clientId: string;
  readonly clientSecret: string;
}

/** Least rights: users; roles of the realm; clients, because permissions are made and put into roles. */
export const SERVICE_ROLES = ['manage-users', 'manage-realm', 'manage-clients'] as const;

const BOTH = { view: ['admin', 'user'], edit: ['admin', 'user'] };
const ADMINISTRATORS = { view: ['admin'], edit: ['admin'] };
const LENGTH = { length: { max: 255 } };

/** Names of any characters, and no last name demanded; `customer_id` is the administrators'. */
export const USER_PROFILE = {
  attributes: [
    { name: 'username', displayName: '${username}', permissions: BOTH, validations: LENGTH },
    { name: 'email', displayName: '${email}', permissions: BOTH, required: { roles: ['user'] }, validations: { email: {}, ...LENGTH } },
    { name: 'firstName', displayName: '${firstName}', permissions: BOTH, validations: LENGTH },
    { name: 'lastName', displayName: '${lastName}', permissions: BOTH, validations: LENGTH },
    { name: 'customer_id', displayName: 'customer_id', permissions: ADMINISTRATORS, multivalued: true },
  ],
};

/** Puts the API into the `aud` of a client's tokens, and a user's `customer_id` into them. */
export const protocolMappers = (audience: string) => [
  {
    name: 'audience',
    protocol: 'openid-connect',
    protocolMapper: 'oidc-audience-mapper',
    config: { 'included.client.audience': audience, 'access.token.claim': 'true' },
  },
  {
    name: 'customer_id',
    protocol: 'openid-connect',
    protocolMapper: 'oidc-usermodel-attribute-mapper',
    config: { 'user.attribute': 'customer_id', 'claim.name': 'customer_id', multivalued: 'true', 'jsonType.label': 'String', 'access.token.claim': 'true' },
  },
];

/** A realm that has all that the service needs, in Keycloak's own form: for an import, or `POST /admin/realms`. */
export const realmRepresentation = ({ realm, audience, permissions, clientId, clientSecret }: RealmOptions) => ({
  realm,
  enabled: true,
  registrationEmailAsUsername: true,
  components: {
    'org.keycloak.userprofile.UserProfileProvider': [
      { providerId: 'declarative-user-profile', config: { 'kc.user.profile.config': [JSON.stringify(USER_PROFILE)] } },
    ],
  },
  clients: [
    { clientId: audience, bearerOnly: true },
    { clientId, secret: clientSecret, serviceAccountsEnabled: true, standardFlowEnabled: false },
  ],
  roles: { client: { [audience]: permissions.map((name) => ({ name })) } },
  users: [
    {
      username: `service-account-${clientId}`,
      enabled: true,
      serviceAccountClientId: clientId,
      clientRoles: { 'realm-management': SERVICE_ROLES },
    },
  ],
});
