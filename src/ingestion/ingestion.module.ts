import { ConfigurableModuleBuilder, type DynamicModule, Module, type Provider } from '@nestjs/common';
import { AccessTokenVerifier } from '../authentication/access-token.js';
import { HttpModule } from '../http/http.module.js';
import { HistoricalIngestionController, NowcastIngestionController } from './adapters/in/http/ingestion.controllers.js';
import { FileStorage } from './application/ports/file-storage.port.js';
import { UploadLoadData } from './application/upload-load-data.use-case.js';
import {
  type IngestionAdapters,
  type IngestionOptions,
  UploadAuthorization,
  UploadLimits,
} from './ingestion.options.js';

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<IngestionOptions>()
  .setClassMethodName('forRoot')
  .setExtras<IngestionAdapters>({ fileStorage: undefined, authentication: undefined }, withAdapters)
  .build();

function withAdapters(definition: DynamicModule, { fileStorage, authentication }: IngestionAdapters): DynamicModule {
  if (!fileStorage) throw new Error('IngestionModule needs { fileStorage }, for example { useClass: MyFileStorage }.');
  const authorization: Provider = authentication
    ? {
        provide: UploadAuthorization,
        inject: [AccessTokenVerifier],
        useFactory: (accessTokens: AccessTokenVerifier) => new UploadAuthorization(accessTokens),
      }
    : { provide: UploadAuthorization, useValue: new UploadAuthorization() };
  return {
    ...definition,
    imports: [...(definition.imports ?? []), ...(authentication ? [authentication] : [])],
    providers: [...(definition.providers ?? []), { provide: FileStorage, ...fileStorage }, authorization],
  };
}

/** The module of the two upload operations. It can be used on its own in any Nest application on Express. */
@Module({
  imports: [HttpModule],
  controllers: [HistoricalIngestionController, NowcastIngestionController],
  providers: [
    UploadLoadData,
    { provide: UploadLimits, inject: [MODULE_OPTIONS_TOKEN], useFactory: (options: IngestionOptions) => new UploadLimits(options) },
  ],
  exports: [FileStorage],
})
export class IngestionModule extends ConfigurableModuleClass {}
