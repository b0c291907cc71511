import type { ApiAnswer } from './route.js';
import { invalidQuery, ManagementError } from './management-error.js';

export interface Page {
  readonly start: number;
  readonly limit: number;
  readonly includeTotals: boolean;
}

export interface PageRules {
  readonly defaultSize: number;
  /** A request for more items, up to MAX_PER_PAGE, gets this number and no error. */
  readonly largestSize: number;
  readonly smallestSize: number;
  readonly cap?: number;
}

/** According to Auth0's API description. */
const MAX_PER_PAGE = 100;

/**
 * Reads which page of a list is wanted.
 *
 * @throws ManagementError 400 for an invalid query parameter, or for a page that ends beyond `cap`.
 */
export function readPage(query: URLSearchParams, { defaultSize, largestSize, smallestSize, cap }: PageRules): Page {
  const page = number(query, 'page', 0, Number.MAX_SAFE_INTEGER) ?? 0;
  const asked = number(query, 'per_page', smallestSize, MAX_PER_PAGE) ?? defaultSize;
  if (cap !== undefined && (page + 1) * asked > cap) {
    throw new ManagementError(
      400,
      `You can only page through the first ${cap} records. See https://auth0.com/docs/users/search/v3/view-search-results-by-page#limitation`,
      'invalid_paging',
    );
  }
  const limit = Math.min(asked, largestSize);
  return { start: page * limit, limit, includeTotals: flag(query, 'include_totals') ?? false };
}

/** The answer with one page of a list. With `includeTotals`, the items are in the member `name`, beside totals. */
export function listAnswer(name: string, items: readonly unknown[], page: Page): ApiAnswer {
  return pageAnswer(name, items.slice(page.start, page.start + page.limit), page, items.length);
}

export function pageAnswer(name: string, items: readonly unknown[], { start, limit, includeTotals }: Page, total: number): ApiAnswer {
  return { status: 200, body: includeTotals ? { start, limit, total, [name]: items } : items };
}

/**
 * The value of a boolean query parameter; undefined if the parameter is missing.
 *
 * @throws ManagementError 400 for a value other than `true` and `false`.
 */
export function flag(query: URLSearchParams, name: string): boolean | undefined {
  const value = query.get(name);
  if (value === null) return undefined;
  if (value !== 'true' && value !== 'false') throw invalidQuery(`Expected type boolean on property ${name}`);
  return value === 'true';
}

function number(query: URLSearchParams, name: string, least: number, most: number): number | undefined {
  const value = query.get(name);
  if (value === null) return undefined;
  const parsed = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
  if (!(parsed >= least && parsed <= most)) throw invalidQuery(`Value ${value} is out of range on property ${name}`);
  return parsed;
}
