import type { DynamicModule, Type } from '@nestjs/common';
import type { PermissionGuard } from '../authentication/permission.guard.js';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { FileStorage } from './application/ports/file-storage.port.js';
import type { UploadEvents } from './application/ports/upload-events.port.js';

/** Settings of the ingestion module: the limits of uploads, their retention, and the `source` of events. */
export interface IngestionOptions {
  /** Maximum length of a file in bytes. Default: 5 GiB. */
  readonly maxUploadBytes?: number;
  /** Maximum length of a JSON body, or of a form's `additional_data`, in bytes. Default: 10 MiB. */
  readonly maxJsonBytes?: number;
  /**
   * Removes uploads that were received on a UTC day more than this many days before today. Default: 0, which keeps
   * uploads for ever.
   */
  readonly retentionDays?: number;
  /**
   * The service's base URL, as clients see it: the `source` of events. Default: `load-data-service`. If it is a
   * promise, no event is delivered before it resolves.
   */
  readonly baseUrl?: string | Promise<string>;
  /** How long a client may send nothing of its request, or read nothing of its answer, in ms. Default: 60,000. */
  readonly idleTimeoutMs?: number;
}

/** The adapters of the ingestion module. */
export interface IngestionAdapters {
  /** Where uploads are stored. Required. */
  fileStorage: ProviderDefinition<FileStorage> | undefined;
  /**
   * A module that exports `AccessTokenVerifier`. Uploads then need a token, unless `openUploads` is true. Without such
   * a module, anyone may upload, and nobody may list, find, fetch or remove uploads: these operations don't exist.
   */
  authentication: DynamicModule | Type | undefined;
  /**
   * The receiver of an event for each upload that was stored or removed. Needs a store with an `eventOutbox`. Default:
   * no receiver.
   */
  events?: ProviderDefinition<UploadEvents> | undefined;
  /** Whether anyone may upload, although `authentication` is set. Default: false. */
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

/** Holds the guard of upload requests. The guard is undefined if anyone may upload. */
export class UploadAuthorization {
  constructor(readonly guard?: PermissionGuard) {}
}
