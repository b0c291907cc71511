/**
 * A text as `application/x-www-form-urlencoded` writes it, decoded strictly (RFC 6749, appendix B).
 *
 * @throws URIError when a percent sign doesn't begin an escape, or the bytes are no UTF-8.
 */
export const formDecode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '));
