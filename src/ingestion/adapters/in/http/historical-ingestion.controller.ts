import type { IncomingMessage, ServerResponse } from 'node:http';
import { Controller, HttpCode, Post, Req, Res, UseGuards } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { ApiUpload } from './api-upload.decorator.js';
import { UploadGuard } from './upload.guard.js';
import { type UploadAnswer, UploadHandler } from './upload.handler.js';
import { UploadQueryDto } from './upload-query.dto.js';
import { UploadQuery } from './upload-query.pipe.js';

/** Receives historical load data, for training forecasting models (service interface, 4.1). */
@ApiTags('Historical ingestion')
@Controller('ingestHistoricalLoadData')
export class HistoricalIngestionController {
  constructor(private readonly uploads: UploadHandler) {}

  @Post('upload_historical')
  @HttpCode(200)
  @UseGuards(UploadGuard('historical'))
  @ApiUpload('historical')
  upload(
    @UploadQuery() query: UploadQueryDto,
    @Req() request: IncomingMessage,
    @Res({ passthrough: true }) response: ServerResponse,
  ): Promise<UploadAnswer> {
    return this.uploads.handle('historical', query, request, response);
  }
}
