import type { Server, ServerOptions } from './server.mjs';

/**
 * Keycloak on the loopback interface, with one realm besides `master`. It keeps no data: `restart()` restores the
 * original realm with new keys, and no other.
 */
export interface Keycloak extends Server {
  /** The variables with which `npm run keycloak:setup` gets the rights of Keycloak's administrator. */
  readonly administrator: Readonly<Record<string, string>>;
  /**
   * Runs the built `keycloak:setup` on the realm, with more variables if given. Resolves to the environment that it
   * prints for the service. Rejects with its output if it fails.
   */
  setUp(variables?: Readonly<Record<string, string>>): Promise<Record<string, string>>;
  /**
   * Calls the Admin API of the realm as Keycloak's administrator. `path` begins after the name of the realm. Rejects if
   * the status isn't 2xx.
   */
  administer(method: string, path: string, body?: unknown): Promise<unknown>;
  /** Creates another realm, in Keycloak's own format, as for an import. Rejects if the status isn't 2xx. */
  createRealm(realm: KeycloakOptions['realm']): Promise<void>;
}

export interface KeycloakOptions extends ServerOptions {
  /** The realm in Keycloak's own format, as for an import. */
  realm: { readonly realm: string; readonly [member: string]: unknown };
  /**
   * Options of Java, for a server with its database in memory. Default: a heap, a compiler and a garbage collector that
   * start fast, and a prepared database.
   */
  virtualMachine?: string[];
}

export function isKeycloakAvailable(): boolean;
export function installKeycloak(): Promise<void>;
export function startKeycloak(options: KeycloakOptions): Promise<Keycloak>;
