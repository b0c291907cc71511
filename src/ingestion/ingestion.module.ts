import { ConfigurableModuleBuilder, type DynamicModule, Logger, Module, type OnApplicationBootstrap, Optional, type Provider } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AccessTokenVerifier } from '../authentication/access-token.js';
import { PermissionGuard } from '../authentication/permission.guard.js';
import { HttpModule } from '../http/http.module.js';
import { EventRelay, EventRelayOptions } from './application/event-relay.js';
import { FileStorage } from './application/ports/file-storage.port.js';
import { UploadEvents } from './application/ports/upload-events.port.js';
import { FindUpload } from './application/find-upload.use-case.js';
import { ListUploads } from './application/list-uploads.use-case.js';
import { RemoveUploads } from './application/remove-uploads.use-case.js';
import { Retention, RetentionPeriod } from './application/retention.js';
import { StoredUploadsController } from './adapters/in/http/stored-uploads.controller.js';
import { UploadController } from './adapters/in/http/upload.controller.js';
import { UnreadEvents } from './application/unread-events.js';
import { UploadLoadData } from './application/upload-load-data.use-case.js';
import {
  type IngestionAdapters,
  type IngestionOptions,
  UploadAuthorization,
  UploadLimits,
} from './ingestion.options.js';

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<IngestionOptions>()
  .setClassMethodName('forRoot')
  .setExtras<IngestionAdapters>({ fileStorage: undefined, authentication: undefined, events: undefined, openUploads: false }, withAdapters)
  .build();

const RELAY_OPTIONS: Provider = {
  provide: EventRelayOptions,
  inject: [MODULE_OPTIONS_TOKEN],
  useFactory: ({ baseUrl = 'load-data-service' }: IngestionOptions) => new EventRelayOptions(baseUrl),
};

function withAdapters(definition: DynamicModule, { fileStorage, authentication, events, openUploads }: IngestionAdapters): DynamicModule {
  if (!fileStorage) throw new Error('IngestionModule needs { fileStorage }, for example { useClass: MyFileStorage }.');
  const authorization: Provider = authentication && !openUploads
    ? {
        provide: UploadAuthorization,
        inject: [AccessTokenVerifier, Reflector],
        useFactory: (verifier: AccessTokenVerifier, reflector: Reflector) => new UploadAuthorization(new PermissionGuard(verifier, reflector)),
      }
    : { provide: UploadAuthorization, useValue: new UploadAuthorization() };
  return {
    ...definition,
    imports: [...(definition.imports ?? []), ...(authentication ? [authentication] : [])],
    controllers: [...(definition.controllers ?? []), ...(authentication ? [StoredUploadsController] : [])],
    providers: [
      ...(definition.providers ?? []),
      { provide: FileStorage, ...fileStorage },
      authorization,
      ...(events ? [{ provide: UploadEvents, ...events }, RELAY_OPTIONS, EventRelay] : [UnreadEvents]),
    ],
  };
}

/**
 * The module of the upload operations and, with `authentication`, of those that list, find, fetch and remove uploads.
 * With `events`, it also delivers an event for each upload that was stored or removed. It can be used on its own in any
 * Nest application on Express.
 */
@Module({
  imports: [HttpModule],
  controllers: [UploadController],
  providers: [
    UploadLoadData,
    FindUpload,
    ListUploads,
    RemoveUploads,
    Retention,
    { provide: RetentionPeriod, inject: [MODULE_OPTIONS_TOKEN], useFactory: ({ retentionDays = 0 }: IngestionOptions) => new RetentionPeriod(retentionDays) },
    { provide: UploadLimits, inject: [MODULE_OPTIONS_TOKEN], useFactory: (options: IngestionOptions) => new UploadLimits(options) },
  ],
  exports: [FileStorage],
})
export class IngestionModule extends ConfigurableModuleClass implements OnApplicationBootstrap {
  constructor(
    private readonly fileStorage: FileStorage,
    @Optional() private readonly relay?: EventRelay,
  ) {
    super();
  }

  /** Begins no further delivery of events. Resolves when the one in progress, if any, has ended. */
  async finishDeliveries(): Promise<void> {
    await this.relay?.finish();
  }

  onApplicationBootstrap(): void {
    if (this.fileStorage.storedUploads) return;
    new Logger(IngestionModule.name).log("The store doesn't offer its uploads, so the operations on /uploads answer 404.");
  }
}
