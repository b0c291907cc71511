import type { IdentityProvider } from '../identity-management/application/ports/identity-provider.port.js';

export interface IdentityProviderSetting {
  readonly provider: IdentityProvider;
  /** An id that this provider could have issued, but that no user has. */
  readonly unknownUserId: string;
  /** An id that this provider could have issued, but that no role has. */
  readonly unknownRoleId: string;
  /** A number of users, or of roles, whose list has more than one page. Default: 501. */
  readonly moreThanOnePage?: number;
  /**
   * How many calls a test makes at the same time. Default: 50 creations of a role or user, 10 assignments of a role.
   */
  readonly simultaneousCalls?: number;
  /** A user name of 255 characters. Default: emoji, the characters that take the most bytes in UTF-16 and UTF-8. */
  readonly longestName?: string;
  /** Returns the provider as after a restart of the service. For an adapter without state, this can be `provider`. */
  reopen(): Promise<IdentityProvider>;
  /** Asks the provider directly, not through the adapter, for the permissions of a user's roles, in any order. */
  permissionsOf(userId: string): Promise<readonly string[]>;
  tearDown(): void | Promise<void>;
}

export const ODD_NAMES = [
  'a',
  '  spaces around are kept ',
  'Jürgen Müller-Lüdenscheidt',
  'Ame\u0301lie',
  '👩‍👩‍👧‍👦 family 🇪🇺',
  'שלום עולם',
  'مرحبا بالعالم ١٢٣',
  '日本語の名前',
  `O'Brien "Bob" <b>;--`,
  `'); DROP TABLE users; --`,
  '100% %41 %00 %zz ${x} {{y}} \\u0041 \\ / ? # & = + *',
  '\u200b\u202eevil\u2066',
  'null',
  '[object Object]',
  '__proto__',
];

export const MALFORMED_IDS = [
  '',
  ' ',
  'x'.repeat(10_000),
  '|',
  'embedded|',
  'other|4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10',
  '4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10',
  "' OR '1'='1",
  '%',
  '../../admin',
  'a/b?c=d#e',
  'null',
  '__proto__',
  '😀',
  '\ud800',
];

/** Pairs each text with a label for the title of a test. */
export const labelled = (texts: readonly string[]): [string, string][] =>
  texts.map((text) => [text.length > 80 ? `of ${text.length} code units` : JSON.stringify(text), text]);
