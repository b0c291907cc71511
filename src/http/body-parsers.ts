import type { IncomingMessage } from 'node:http';
import type { Express, RequestHandler } from 'express';
import { type ExpressLayer, layersOf, markAsPassing } from './route-table.js';

/**
 * The names of the functions that parse bodies in body-parser (which Express and Nest use) and multer. Nest, too,
 * recognizes the parsers of body-parser by name.
 */
const BODY_PARSERS: ReadonlySet<string> = new Set(['jsonParser', 'urlencodedParser', 'textParser', 'rawParser', 'multerMiddleware']);

/**
 * Makes the body parsers among an application's middleware skip the requests for which `isFor` is false, so that the
 * service can read the bodies of these requests itself. `isFor` must be false for the service's routes. Finds only
 * parsers that have a name in BODY_PARSERS and aren't handlers of a single route.
 */
export function limitBodyParsers(express: Express, isFor: (request: IncomingMessage) => boolean): void {
  for (const layer of layersOf(express).filter(isBodyParser)) {
    const { handle } = layer;
    const limited: RequestHandler = (request, response, next) => {
      if (isFor(request)) return handle(request, response, next);
      next();
    };
    markAsPassing(limited);
    // The replacement keeps the parser's name: Nest would register another parser if it found none with that name.
    layer.handle = Object.defineProperty(limited, 'name', { value: handle.name });
  }
}

const isBodyParser = ({ route, handle }: ExpressLayer): boolean => route === undefined && BODY_PARSERS.has(handle.name);
