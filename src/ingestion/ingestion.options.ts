import type { DynamicModule, Type } from '@nestjs/common';
import type { AccessTokenVerifier } from '../authentication/access-token.js';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { FileStorage } from './application/ports/file-storage.port.js';
import type { UploadEvents } from './application/ports/upload-events.port.js';

/** The limits of uploads. */
export interface IngestionOptions {
  /** Maximum length of a file in bytes. Default: 5 GiB. */
  readonly maxUploadBytes?: number;
  /** Maximum length of a JSON body, or of a form's `additional_data`, in bytes. Default: 10 MiB. */
  readonly maxJsonBytes?: number;
  /** Uploads of days that are older than so many days are removed; 0, the default, keeps them for ever. */
  readonly retentionDays?: number;
  /**
   * The service's base URL, as clients see it: the `source` of events. Default: `load-data-service`. If it is a promise,
   * nothing is told before it resolves.
   */
  readonly baseUrl?: string | Promise<string>;
  /** How long a client may be silent during its request, in milliseconds. Default: 60,000. */
  readonly idleTimeoutMs?: number;
}

/** The adapters of the ingestion module. */
export interface IngestionAdapters {
  /** Where uploads are stored. Required. */
  fileStorage: ProviderDefinition<FileStorage> | undefined;
  /**
   * A module that exports `AccessTokenVerifier`. Uploads then need a token, unless `openUploads` is true. Without it,
   * anyone may upload, and nobody may find, fetch or remove uploads: these operations don't exist.
   */
  authentication: DynamicModule | Type | undefined;
  /** Who is told of uploads that were stored and removed. Needs a store with an `eventOutbox`. Default: nobody. */
  events?: ProviderDefinition<UploadEvents> | undefined;
  /** Whether anyone may upload, although there is an `authentication`. Default: false. */
  openUploads?: boolean;
}

/** The limits that apply to the body of an upload request, with the defaults filled in. */
export class UploadLimits {
  readonly maxUploadBytes: number;
  readonly maxJsonBytes: number;
  readonly idleTimeoutMs: number;

  constructor(options: IngestionOptions) {
    this.maxUploadBytes = options.maxUploadBytes ?? 5_368_709_120;
    this.maxJsonBytes = options.maxJsonBytes ?? 10_485_760;
    this.idleTimeoutMs = options.idleTimeoutMs ?? 60_000;
  }
}

/** The verifier of upload tokens; undefined if anyone may upload. */
export class UploadAuthorization {
  constructor(readonly accessTokens?: AccessTokenVerifier) {}
}
