import type { DynamicModule, Type } from '@nestjs/common';
import type { PermissionGuard } from '../authentication/permission.guard.js';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { FileStorage } from './application/ports/file-storage.port.js';
import type { UploadEvents } from './application/ports/upload-events.port.js';

export interface IngestionOptions {
  /** The most bytes of a file. Default: 5 GiB. */
  readonly maxUploadBytes?: number;
  /** The most bytes of a JSON body, or of a form's `additional_data`. Default: 10 MiB. */
  readonly maxJsonBytes?: number;
  /** Removes uploads that were received on a UTC day more than this many days ago. Default: 0, which keeps all. */
  readonly retentionDays?: number;
  /**
   * The service's base URL, as clients see it: the `source` of events. Default: `load-data-service`. If it is a
   * promise, no event is delivered before it resolves.
   */
  readonly baseUrl?: string | Promise<string>;
  /** How long a client may send nothing of its request, or read nothing of its answer, in ms. Default: 60,000. */
  readonly idleTimeoutMs?: number;
}

export interface IngestionAdapters {
  fileStorage: ProviderDefinition<FileStorage> | undefined;
  /**
   * A module that exports `AccessTokenVerifier`. Uploads then need a token, unless `openUploads` is true. Without such
   * a module, anyone may upload, and the operations on stored uploads don't exist.
   */
  authentication: DynamicModule | Type | undefined;
  /** The receiver of an event for each upload that was stored or removed. Needs a store with an `eventOutbox`. */
  events?: ProviderDefinition<UploadEvents> | undefined;
  /** Whether anyone may upload, although `authentication` is set. Default: false. */
  openUploads?: boolean;
}

/** The limits on uploads and idle clients, with the defaults filled in. */
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

/** Holds the guard of upload requests. The guard is undefined if anyone may upload. */
export class UploadAuthorization {
  constructor(readonly guard?: PermissionGuard) {}
}
