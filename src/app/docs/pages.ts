import { join } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import express, { type Response } from 'express';
import type { ServedAddress } from '../../configuration/served-address.js';

/** The root folder of the package, by a path that is the same from the sources (`src`) and from the build (`dist`). */
const PACKAGE = join(import.meta.dirname, '../../..');

const PAGES = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE', 'docs', 'examples/README.md'];

/** Pages are sent as plain text, because some browsers would download Markdown instead of showing it. */
const AS_TEXT = { index: false, redirect: false, setHeaders: (response: Response) => response.type('text/plain') } as const;

/**
 * Serves the package's pages below `{base_url}/docs/pages/`, by their paths in the package, so that relative links
 * between the pages work.
 */
export function setUpPages(app: NestExpressApplication, { basePath }: ServedAddress): void {
  const pages = express.Router();
  for (const path of PAGES) pages.use(`/${path}`, express.static(join(PACKAGE, path), AS_TEXT));
  app.use(`${basePath}/docs/pages`, pages);
}

/** The URL path of a page, as clients see it. */
export const pagePath = (publicPath: string, page: string): string => `${publicPath}/docs/pages/${page}`;
