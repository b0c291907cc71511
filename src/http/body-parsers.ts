import type { IncomingMessage } from 'node:http';
import type { Express, RequestHandler } from 'express';
import { type ExpressLayer, layersOf } from './route-table.js';

/**
 * The names of the functions that parse bodies in body-parser (which Express and Nest use) and multer. Like Nest, this
 * module recognizes a parser by the name of its function.
 */
const BODY_PARSERS: ReadonlySet<string> = new Set(['jsonParser', 'urlencodedParser', 'textParser', 'rawParser', 'multerMiddleware']);

/**
 * Makes the body parsers that an application has registered for all routes skip the requests for which `isFor` is
 * false. The bodies of these requests stay unread, so that the service can read them itself.
 */
export function limitBodyParsers(express: Express, isFor: (request: IncomingMessage) => boolean): void {
  for (const layer of layersOf(express).filter(isBodyParser)) {
    const { handle } = layer;
    const limited: RequestHandler = (request, response, next) => {
      if (isFor(request)) return handle(request, response, next);
      next();
    };
    // The limited parser keeps the name of the original one, because Nest would register a parser of its own if it
    // found none with that name.
    layer.handle = Object.defineProperty(limited, 'name', { value: handle.name });
  }
}

const isBodyParser = ({ route, handle }: ExpressLayer): boolean => route === undefined && BODY_PARSERS.has(handle.name);
