import { join } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import express, { type Response } from 'express';
import type { ServedAddress } from '../../configuration/served-address.js';

/** The folder of this package. The path to it is the same from the sources (`src`) and from the build (`dist`). */
const PACKAGE = join(import.meta.dirname, '../../..');

/** The pages that are served, as paths in the package: single files, and the folder `docs` with all its files. */
const PAGES = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE', 'docs', 'examples/README.md'];

/** Options that send every file as plain text, because some browsers would download Markdown instead of showing it. */
const AS_TEXT = { index: false, redirect: false, setHeaders: (response: Response) => response.type('text/plain') } as const;

/**
 * Serves the pages of this package as plain text. The URL of a page is `{base_url}/docs/pages/` and its path in the
 * package, such as `docs/clients.md`. So relative links between the files also work between the URLs. A page is read
 * when it is requested.
 */
export function setUpPages(app: NestExpressApplication, { basePath }: ServedAddress): void {
  const pages = express.Router();
  for (const path of PAGES) pages.use(`/${path}`, express.static(join(PACKAGE, path), AS_TEXT));
  app.use(`${basePath}/docs/pages`, pages);
}

/** The path of a page of this package, as clients see it. */
export const pagePath = (publicPath: string, page: string): string => `${publicPath}/docs/pages/${page}`;
