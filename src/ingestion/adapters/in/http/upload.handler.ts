import type { IncomingMessage, ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { UploadLoadData } from '../../../application/upload-load-data.use-case.js';
import type { UploadKind } from '../../../domain/upload.js';
import { UploadLimits } from '../../../ingestion.options.js';
import { idempotencyKeyOf } from './idempotency-key.js';
import { openUploadBody } from './upload-body.js';
import type { UploadQueryDto } from './upload-query.dto.js';

export interface UploadAnswer {
  readonly status: 'success';
  readonly message: string;
}

/** The common part of the two upload operations. */
@Injectable()
export class UploadHandler {
  constructor(
    private readonly uploadLoadData: UploadLoadData,
    private readonly limits: UploadLimits,
  ) {}

  /**
   * Responds when the upload is durable, with `X-Upload-Id` and, for a file, `X-Upload-Digest` (in the syntax of RFC
   * 9530). `Idempotent-Replayed: true` means that an earlier request stored it.
   */
  async handle(
    kind: UploadKind,
    query: UploadQueryDto,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<UploadAnswer> {
    const idempotencyKey = idempotencyKeyOf(request);
    const body = await openUploadBody(request, this.limits);
    const parameters = { customerId: query.customer_id, filename: query.filename, manufacturer: query.manufacturer };
    const { uploadId, content, replayed } = await this.uploadLoadData
      .execute({ kind, ...parameters, idempotencyKey, ...body.content })
      .finally(() => { body.close(); });
    response.setHeader('X-Upload-Id', uploadId);
    if (content) {
      const digest = Buffer.from(content.sha256, 'hex').toString('base64');
      response.setHeader('X-Upload-Digest', `sha-256=:${digest}:`);
    }
    if (replayed) response.setHeader('Idempotent-Replayed', 'true');
    return { status: 'success', message: 'Data uploaded successfully.' };
  }
}
