import type { RouteAnswer } from './route.js';
import { invalidQuery, ManagementError } from './management-error.js';

export interface Page {
  readonly start: number;
  readonly limit: number;
  readonly includeTotals: boolean;
}

export interface PageRules {
  readonly defaultSize: number;
  /** The maximum number of items on a page. Asking for more, up to MAX_PER_PAGE, is no error. */
  readonly largestSize: number;
  readonly smallestSize: number;
  readonly cap?: number;
}

/** The maximum of the query parameter `per_page`, according to Auth0's API description. */
const MAX_PER_PAGE = 100;

/**
 * Reads from a query which page of a list is wanted.
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

/** Returns the answer with one page of a list: an array, or, with `includeTotals`, an array and totals in an object. */
export function listAnswer(name: string, items: readonly unknown[], page: Page): RouteAnswer {
  return pageAnswer(name, items.slice(page.start, page.start + page.limit), page, items.length);
}

function pageAnswer(name: string, items: readonly unknown[], { start, limit, includeTotals }: Page, total: number): RouteAnswer {
  return { status: 200, body: includeTotals ? { start, limit, total, [name]: items } : items };
}

/**
 * Returns the value of a boolean query parameter; undefined if the parameter is missing.
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
