import type { IncomingMessage } from 'node:http';
import type { Express, RequestHandler } from 'express';
import { type ExpressLayer, layersOf } from './route-table.js';

/**
 * The functions that parse bodies in body-parser (which Express and Nest use) and multer. Nest recognizes parsers by
 * these names too.
 */
const BODY_PARSERS: ReadonlySet<string> = new Set(['jsonParser', 'urlencodedParser', 'textParser', 'rawParser', 'multerMiddleware']);

/**
 * Makes the body parsers among an application's middleware skip the requests for which `isFor` is false, so that the
 * service can read the bodies of these requests itself. Finds only the parsers in BODY_PARSERS, and none that is a
 * handler of a single route.
 */
export function limitBodyParsers(express: Express, isFor: (request: IncomingMessage) => boolean): void {
  for (const layer of layersOf(express).filter(isBodyParser)) {
    const { handle } = layer;
    const limited: RequestHandler = (request, response, next) => {
      if (isFor(request)) return handle(request, response, next);
      next();
    };
    // Nest would register a parser of its own if it found none with the original's name.
    layer.handle = Object.defineProperty(limited, 'name', { value: handle.name });
  }
}

const isBodyParser = ({ route, handle }: ExpressLayer): boolean => route === undefined && BODY_PARSERS.has(handle.name);
