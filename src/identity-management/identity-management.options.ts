import type { DynamicModule, Type } from '@nestjs/common';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { IdentityProvider } from './application/ports/identity-provider.port.js';

/** The limits of identity management. */
export interface IdentityManagementOptions {
  /**
   * How long the identity provider may take for one operation, or for one page of a list, in milliseconds (default:
   * 9,400).
   */
  readonly providerTimeoutMs?: number;
  /** The maximum size of a JSON request body (decoded), in bytes (default: 1 MiB). A larger value counts as 1 MiB. */
  readonly maxJsonBytes?: number;
  /**
   * How long a client may pause while it sends a JSON request body, or while it reads a list, in milliseconds (default:
   * 60,000).
   */
  readonly idleTimeoutMs?: number;
}

/** The adapters of the identity-management module. Both are required. */
export interface IdentityManagementAdapters {
  /** The identity provider, which is the store of users and roles. */
  identityProvider: ProviderDefinition<IdentityProvider> | undefined;
  /** A module that exports `AccessTokenVerifier`, which identifies callers. */
  authentication: DynamicModule | Type | undefined;
}

/** The default and upper limit of `maxJsonBytes`, in bytes. More than the body of any sensible request needs. */
const MAX_JSON_BYTES = 1_048_576;

/**
 * The limits for JSON request bodies and lists: the options, with their defaults, and with `maxJsonBytes` cut to 1 MiB.
 */
export class JsonBodyLimits {
  readonly maxJsonBytes: number;
  readonly idleTimeoutMs: number;

  constructor(options: IdentityManagementOptions) {
    this.maxJsonBytes = Math.min(options.maxJsonBytes ?? MAX_JSON_BYTES, MAX_JSON_BYTES);
    this.idleTimeoutMs = options.idleTimeoutMs ?? 60_000;
  }
}
