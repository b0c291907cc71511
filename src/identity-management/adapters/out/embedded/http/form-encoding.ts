/**
 * Strictly decodes `application/x-www-form-urlencoded` text (RFC 6749, appendix B).
 *
 * @throws URIError when a percent sign doesn't begin an escape, or the bytes aren't UTF-8.
 */
export const formDecode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '));
