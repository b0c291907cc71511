import { Global, Module } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { HttpModule } from './http.module.js';
import { WHOLE_APPLICATION, WholeApplicationFilter } from './whole-application.js';

/**
 * Declares that the application is the service as a whole, so that requests for unknown paths are also answered in the
 * form of the service interface.
 */
@Global()
@Module({
  imports: [HttpModule],
  providers: [
    { provide: WHOLE_APPLICATION, useValue: true },
    { provide: APP_FILTER, useClass: WholeApplicationFilter },
  ],
  exports: [WHOLE_APPLICATION],
})
export class WholeApplicationModule {}
