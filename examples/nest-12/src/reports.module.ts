import { type DynamicModule, Controller, Get, Inject, Module, UseGuards } from '@nestjs/common';
import { PermissionGuard, RequirePermission } from 'load-data-service';

/** How many uploads each customer has sent. */
export abstract class UploadCounts {
  abstract byCustomer(): Promise<Record<string, number>>;
}

@Controller('reports')
@UseGuards(PermissionGuard)
export class ReportsController {
  constructor(@Inject(UploadCounts) private readonly counts: UploadCounts) {}

  /**
   * Only for tokens with the team's own permission. A role gets that permission like any other, through create-role.
   */
  @Get('uploads')
  @RequirePermission('read:reports')
  uploads(): Promise<Record<string, number>> {
    return this.counts.byCustomer();
  }
}

@Module({ controllers: [ReportsController] })
export class ReportsModule {
  static of(counts: UploadCounts): DynamicModule {
    return { module: ReportsModule, providers: [{ provide: UploadCounts, useValue: counts }] };
  }
}
