import type { IncomingMessage } from 'node:http';
import type { Express, RequestHandler } from 'express';
import { type ExpressLayer, layersOf } from './route-table.js';

/**
 * The names of the functions of body-parser (which Express and Nest use) and multer. Nest finds parsers by name too.
 */
const BODY_PARSERS: ReadonlySet<string> = new Set(['jsonParser', 'urlencodedParser', 'textParser', 'rawParser', 'multerMiddleware']);

/**
 * Lets the body parsers that are registered for all routes pass over the requests for which `isFor` is false, so that
 * their bodies stay unread.
 */
export function limitBodyParsers(express: Express, isFor: (request: IncomingMessage) => boolean): void {
  for (const layer of layersOf(express).filter(isBodyParser)) {
    const { handle } = layer;
    const limited: RequestHandler = (request, response, next) => {
      if (isFor(request)) return handle(request, response, next);
      next();
    };
    // Nest looks for a parser of this name before it registers its own parsers.
    layer.handle = Object.defineProperty(limited, 'name', { value: handle.name });
  }
}

const isBodyParser = ({ route, handle }: ExpressLayer): boolean => route === undefined && BODY_PARSERS.has(handle.name);
