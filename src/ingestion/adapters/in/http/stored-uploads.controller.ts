import { type IncomingMessage, type ServerResponse, validateHeaderValue } from 'node:http';
import { Delete, Get, HttpCode, Param, Req, Res } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import contentDisposition from 'content-disposition';
import { assertCustomer, coversCustomer } from '../../../../authentication/permission.guard.js';
import { ServiceError } from '../../../../common/service-error.js';
import { isCached, requestedRange } from '../../../../http/byte-range.js';
import { sha256Field } from '../../../../http/digest-fields.js';
import { parseQuery } from '../../../../http/query.js';
import { AnswerMemory } from '../../../../http/answer-memory.js';
import { noteCustomer, sendJson } from '../../../../http/exchange.js';
import { ServiceController } from '../../../../http/service-controller.decorator.js';
import { sendBytes, sendJsonBytes } from '../../../../http/send-bytes.js';
import { encodeDescription, encodeDescriptions } from '../../../domain/layout.js';
import type { Upload, UploadContent } from '../../../domain/upload.js';
import type { ByteRange } from '../../../application/ports/stored-uploads.port.js';
import { FindUpload } from '../../../application/find-upload.use-case.js';
import { ListUploads } from '../../../application/list-uploads.use-case.js';
import { RemoveUploads } from '../../../application/remove-uploads.use-case.js';
import { UploadLimits } from '../../../ingestion.options.js';
import { ApiContent, ApiUploadPage, ApiRemoval, ApiRemovalOfAll, ApiStoredUpload, StoredUploadsOperation } from './api-stored-uploads.decorator.js';
import { DEFAULT_CONTENT_TYPE } from './upload-head.js';
import { encodePageToken, readUploadListQuery, readUploadRemovalQuery } from './stored-uploads-query.js';

const MAX_TYPE_LENGTH = 1_024;

/**
 * The operations that list, find, fetch and remove uploads. Each needs an access token with the operation's permission,
 * whose `customer_id` claim covers the customer of the upload.
 */
@ApiTags('Stored uploads')
@ServiceController('uploads')
export class StoredUploadsController {
  constructor(
    private readonly findUpload: FindUpload,
    private readonly listUploads: ListUploads,
    private readonly removeUploads: RemoveUploads,
    private readonly limits: UploadLimits,
  ) {}

  @Get()
  @StoredUploadsOperation('read:uploads', { operationId: 'listUploads', summary: 'List uploads, newest first' })
  @ApiUploadPage()
  async list(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const query = parseQuery(request);
    assertCustomer(request, query.get('customer_id'));
    const { filter, limit, after } = readUploadListQuery(query);
    noteCustomer(request, filter.customerId);
    await this.answer(request, response, async (memory) => {
      const { uploads, next } = await this.listUploads.execute(filter, limit, after, memory);
      const end = `,"next_page_token":${JSON.stringify(next && encodePageToken(next))}}`;
      return Buffer.concat([Buffer.from('{"uploads":'), await encodeDescriptions(uploads), Buffer.from(end)]);
    });
  }

  @Get(':upload_id')
  @StoredUploadsOperation('read:uploads', { operationId: 'findUpload', summary: 'Find an upload' })
  @ApiStoredUpload()
  async find(@Param('upload_id') uploadId: string, @Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    await this.answer(request, response, async (memory) => encodeDescription(await this.findUpload.execute(uploadId, accessOf(request), memory)));
  }

  /** Sends an upload's file. The headers make a browser save the file instead of showing it (RFC 6266, RFC 9110). */
  @Get(':upload_id/content')
  @StoredUploadsOperation('read:uploads', { operationId: 'downloadUpload', summary: "Fetch an upload's file" })
  @ApiContent()
  async content(@Param('upload_id') uploadId: string, @Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const upload = await this.withoutText(uploadId, request, response);
    const { content } = upload;
    if (!content) throw new ServiceError('not-found', 'The upload has no file.');
    if (!Number.isSafeInteger(content.size) || content.size < 0) throw new ServiceError('internal', "The line's content_size isn't a number of bytes: someone has edited the line.");
    const etag = `"${content.sha256}"`;
    response.setHeader('ETag', etag);
    if (isCached(request, etag)) {
      response.statusCode = 304;
      response.end();
      return;
    }
    const range = requestedRange(request, content.size, etag);
    if (range === 'unsatisfiable') {
      response.setHeader('Content-Range', `bytes */${content.size}`);
      throw new ServiceError('range-not-satisfiable');
    }
    setContentHeaders(response, upload.filename, content, range);
    const isHead = request.method === 'HEAD';
    // The file is opened last, because an error before the reading would leave it open. HEAD opens it too, to answer as
    // GET does if the file is missing, but requests one byte at most, because a bucket would send the whole file.
    const bytes = await this.findUpload.open(upload, isHead && content.size > 0 ? { first: 0, last: 0 } : range);
    if (!isHead) {
      await sendBytes(request, response, bytes, this.limits.idleTimeoutMs);
      return;
    }
    await bytes[Symbol.asyncIterator]().return?.();
    response.end();
  }

  @Delete(':upload_id')
  @HttpCode(204)
  @StoredUploadsOperation('delete:uploads', { operationId: 'deleteUpload', summary: 'Remove an upload' })
  @ApiRemoval()
  async remove(@Param('upload_id') uploadId: string, @Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    await this.removeUploads.one(uploadId, accessOf(request));
    response.end();
  }

  @Delete()
  @HttpCode(200)
  @StoredUploadsOperation('delete:uploads', {
    operationId: 'deleteUploads',
    summary: 'Remove all uploads of a customer',
    note: 'The parameters that only the list has (`kind`, `from`, `to`, `limit`, `page_token`) are refused, because ignoring one would remove more than was asked for. A misspelt `before` is ignored like any unknown parameter: look at the list first, with the time as `to`.',
  })
  @ApiRemovalOfAll()
  async removeAll(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const query = parseQuery(request);
    assertCustomer(request, query.get('customer_id'));
    const filter = readUploadRemovalQuery(query);
    noteCustomer(request, filter.customerId);
    const deleted = await this.removeUploads.all(filter, { signal: whileConnected(response) });
    sendJson(response, { status: 'success', deleted });
  }

  /** Sends the JSON that `make` returns. Meanwhile, at most its length is held of the memory that `make` took. */
  private async answer(request: IncomingMessage, response: ServerResponse, make: (memory: AnswerMemory) => Promise<Buffer>): Promise<void> {
    const memory = new AnswerMemory(response);
    try {
      const json = await make(memory);
      memory.shrinkTo(json.length);
      await sendJsonBytes(request, response, json, this.limits.idleTimeoutMs);
    } finally {
      memory.release();
    }
  }

  /** Finds an upload, without its `additional_data`: a long text would take memory while the file is sent. */
  private async withoutText(uploadId: string, request: IncomingMessage, response: ServerResponse): Promise<Upload> {
    const memory = new AnswerMemory(response);
    try {
      return { ...(await this.findUpload.execute(uploadId, accessOf(request), memory)), additionalData: null };
    } finally {
      memory.release();
    }
  }
}

/** @throws an error of Node if the file's sha-256 isn't a text, because someone has edited the index line. */
function setContentHeaders(response: ServerResponse, filename: string, { size, type, sha256 }: UploadContent, range: ByteRange | undefined): void {
  response.statusCode = range ? 206 : 200;
  if (range) response.setHeader('Content-Range', `bytes ${range.first}-${range.last}/${size}`);
  response.setHeader('Content-Type', isMediaType(type) ? type : DEFAULT_CONTENT_TYPE);
  response.setHeader('Content-Length', range ? range.last - range.first + 1 : size);
  response.setHeader('Content-Disposition', asAttachment(filename));
  // Here, too, because a host may pass requests of another server to this Express application, and that server doesn't
  // add it.
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Content-Security-Policy', 'sandbox');
  response.setHeader('Accept-Ranges', 'bytes');
  response.setHeader('Repr-Digest', sha256Field(sha256));
}

/**
 * Whether a media type can be sent. Most clients refuse an answer whose head has more than 16 KiB, and some proxies one of
 * 4 KiB. In an index line that someone has edited, the type may be invalid or missing.
 */
function isMediaType(value: string): boolean {
  try {
    validateHeaderValue('Content-Type', value);
    return value.length <= MAX_TYPE_LENGTH;
  } catch {
    return false;
  }
}

/**
 * The Content-Disposition of a file; for old clients also with the filename in ASCII (RFC 6266, appendix D). In an
 * index line that someone has edited, the filename may be missing or contain lone surrogates.
 */
const asAttachment = (filename: unknown): string =>
  typeof filename === 'string' ? contentDisposition(filename.toWellFormed(), { fallback: filename.replace(/[^ -~]/g, '?') }) : contentDisposition();

const accessOf = (request: IncomingMessage) => (customerId: string): boolean => {
  noteCustomer(request, customerId);
  return coversCustomer(request, customerId);
};

function whileConnected(response: ServerResponse): AbortSignal {
  const connection = new AbortController();
  response.once('close', () => {
    connection.abort(new ServiceError('client-aborted', 'The client disconnected.'));
  });
  return connection.signal;
}
