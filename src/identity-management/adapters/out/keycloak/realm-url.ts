/**
 * The URL of a realm of Keycloak. The realm's issuer is the same URL, unless Keycloak is configured with another host
 * name.
 *
 * @param url Keycloak's URL, without a trailing slash.
 */
export const realmUrl = ({ url, realm }: { readonly url: string; readonly realm: string }): string => `${url}/realms/${encodeURIComponent(realm)}`;
