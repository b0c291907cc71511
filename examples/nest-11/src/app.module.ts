import { Controller, type DynamicModule, Get, Module, UseFilters, UseGuards } from '@nestjs/common';
import { AuthenticationModule, type AuthenticationOptions, FileStorage, IngestionModule, PermissionGuard, RequirePermission, ServiceExceptionFilter } from 'load-data-service';

/** The team's own controller. It checks the same access tokens as the service's operations. */
@Controller('reports')
@UseGuards(PermissionGuard)
@UseFilters(ServiceExceptionFilter)
export class ReportsController {
  constructor(private readonly storage: FileStorage) {}

  @Get('storage')
  @RequirePermission('read:reports')
  async storageHealth(): Promise<{ healthy: boolean }> {
    return this.storage.checkHealth().then(() => ({ healthy: true }), () => ({ healthy: false }));
  }
}

@Module({})
export class AppModule {
  static of(fileStorage: FileStorage, options: AuthenticationOptions): DynamicModule {
    const authentication = AuthenticationModule.forRoot(options);
    return {
      module: AppModule,
      imports: [IngestionModule.forRoot({ fileStorage: { useValue: fileStorage }, authentication, openUploads: true }), authentication],
      controllers: [ReportsController],
    };
  }
}
