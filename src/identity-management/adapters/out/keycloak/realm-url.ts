/** A realm's URL; also its issuer, unless Keycloak is configured with another host name. */
export const realmUrl = ({ url, realm }: { readonly url: string; readonly realm: string }): string => `${url}/realms/${encodeURIComponent(realm)}`;
