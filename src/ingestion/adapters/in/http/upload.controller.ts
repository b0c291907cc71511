import type { IncomingMessage, ServerResponse } from 'node:http';
import { type CanActivate, type ExecutionContext, HttpCode, Injectable, Post, Req, Res, UseGuards } from '@nestjs/common';
import { assertCustomer, RequirePermission } from '../../../../authentication/permission.guard.js';
import { sha256Field } from '../../../../http/digest-fields.js';
import { noteCustomer, noteUpload, sendJson } from '../../../../http/exchange.js';
import { parseQuery } from '../../../../http/query.js';
import { ServiceController } from '../../../../http/service-controller.decorator.js';
import { UploadLoadData } from '../../../application/upload-load-data.use-case.js';
import type { UploadKind } from '../../../domain/upload.js';
import { UploadAuthorization, UploadLimits } from '../../../ingestion.options.js';
import { ApiUpload } from './api-upload.decorator.js';
import { openUploadBody } from './upload-body.js';
import { readUploadHead } from './upload-head.js';

@Injectable()
class UploadGuard implements CanActivate {
  constructor(private readonly authorization: UploadAuthorization) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    return this.authorization.guard?.canActivate(context) ?? true;
  }
}

/** Receives load data: the two upload operations. */
@ServiceController()
export class UploadController {
  constructor(
    private readonly uploadLoadData: UploadLoadData,
    private readonly limits: UploadLimits,
    private readonly authorization: UploadAuthorization,
  ) {}

  /** Stores historical data (service interface, 4.1). */
  @Post('ingestHistoricalLoadData/upload_historical')
  @HttpCode(200)
  @RequirePermission('upload:historical')
  @UseGuards(UploadGuard)
  @ApiUpload({
    tag: 'Historical ingestion',
    operationId: 'uploadHistorical',
    summary: 'Upload historical load data',
    filename: 'nem12_multiple_meters.csv',
    json: {
      'with additional data': { value: { additional_data: 'meter replaced on 2003-12-04' } },
    },
  })
  uploadHistorical(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    return this.store('historical', request, response);
  }

  /** Stores nowcast data (service interface, 4.2). */
  @Post('ingestNowcastLoadData/upload_nowcast')
  @HttpCode(200)
  @RequirePermission('upload:nowcast')
  @UseGuards(UploadGuard)
  @ApiUpload({
    tag: 'Nowcast ingestion',
    operationId: 'uploadNowcast',
    summary: 'Upload nowcast load data',
    filename: 'greenbutton_usage.xml',
    json: {
      'with additional data': { value: { additional_data: 'last 15 minutes' } },
    },
  })
  uploadNowcast(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    return this.store('nowcast', request, response);
  }

  private async store(kind: UploadKind, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const query = parseQuery(request);
    if (this.authorization.guard) assertCustomer(request, query.get('customer_id'));
    const head = readUploadHead(request, query, this.limits);
    const { customer_id: customerId, filename, manufacturer } = head.query;
    noteCustomer(request, customerId);
    const body = await openUploadBody(request, head, this.limits);
    try {
      const { file, additionalData } = body;
      const command = { kind, customerId, filename, manufacturer, idempotencyKey: head.idempotencyKey, file, additionalData };
      const { uploadId, content, replayed } = await this.uploadLoadData.execute(command);
      noteUpload(request, uploadId);
      const headers = ['X-Upload-Id', uploadId];
      if (content) headers.push('X-Upload-Digest', sha256Field(content.sha256));
      if (replayed) headers.push('Idempotent-Replayed', 'true');
      sendJson(response, { status: 'success', message: 'Data uploaded successfully.' }, headers);
    } finally {
      body.end?.();
    }
  }
}
