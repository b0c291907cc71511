import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { hasCode } from '../common/error-code.js';
import { answerError, toServiceError } from './service-exception.filter.js';
import { breakIfUnread } from './exchange.js';

/**
 * Sends a list as the JSON answer `{"<member>": [...]}`, page by page, no faster than the client reads. If fetching a
 * later page fails, breaks the connection, so that no client takes a partial list for a complete one.
 *
 * @param idleTimeoutMs how long the client may read nothing although bytes wait for it. After that, the connection is
 * broken.
 * @throws errors of fetching the first page; then nothing was sent.
 */
export async function sendJsonList<Item>(
  request: IncomingMessage,
  response: ServerResponse,
  member: string,
  pages: AsyncIterable<readonly Item[]>,
  idleTimeoutMs: number,
): Promise<void> {
  const iterator = pages[Symbol.asyncIterator]();
  const first = await iterator.next();
  response.statusCode = 200;
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  if (response.destroyed || request.method === 'HEAD') {
    await iterator.return?.();
    response.end();
    return;
  }
  breakIfUnread(response, idleTimeoutMs);
  try {
    await pipeline(Readable.from(listChunks(member, first, iterator), { highWaterMark: 1 }), response);
  } catch (error) {
    const isHangUp = hasCode(error, 'ERR_STREAM_PREMATURE_CLOSE');
    if (!isHangUp) answerError(request, response, toServiceError(error));
  }
}

async function* listChunks<Item>(
  member: string,
  first: IteratorResult<readonly Item[], unknown>,
  iterator: AsyncIterator<readonly Item[]>,
): AsyncGenerator<string> {
  try {
    yield `{${JSON.stringify(member)}:[`;
    let separator = '';
    let isEmpty = false;
    for (let page = first; !page.done; page = await iterator.next()) {
      const wasEmpty = isEmpty;
      isEmpty = page.value.length === 0;
      // For an empty page after another, a blank is sent, which doesn't change the JSON: only sending shows whether the
      // client has closed its connection. A first empty page sends nothing, but is yielded too, because the generator
      // can be ended only where it yields.
      if (isEmpty) {
        yield wasEmpty ? ' ' : '';
        continue;
      }
      yield separator + JSON.stringify(page.value).slice(1, -1);
      separator = ',';
    }
    yield ']}';
  } finally {
    await iterator.return?.();
  }
}
