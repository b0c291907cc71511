import type { IncomingMessage, ServerResponse } from 'node:http';
import { Controller, HttpCode, Post, Req, Res, UseGuards } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { ApiUpload } from './api-upload.decorator.js';
import { UploadGuard } from './upload.guard.js';
import { type UploadAnswer, UploadHandler } from './upload.handler.js';
import { UploadQueryDto } from './upload-query.dto.js';
import { UploadQuery } from './upload-query.pipe.js';

/** Receives nowcast load data, for generating forecasts (service interface, 4.2). */
@ApiTags('Nowcast ingestion')
@Controller('ingestNowcastLoadData')
export class NowcastIngestionController {
  constructor(private readonly uploads: UploadHandler) {}

  @Post('upload_nowcast')
  @HttpCode(200)
  @UseGuards(UploadGuard('nowcast'))
  @ApiUpload('nowcast')
  upload(
    @UploadQuery() query: UploadQueryDto,
    @Req() request: IncomingMessage,
    @Res({ passthrough: true }) response: ServerResponse,
  ): Promise<UploadAnswer> {
    return this.uploads.handle('nowcast', query, request, response);
  }
}
