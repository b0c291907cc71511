/** A page that the browser has opened. A URL of another origin isn't requested, so its `html` is empty. */
export interface Page {
  readonly url: string;
  readonly html: string;
}

/** A minimal browser for login pages: it keeps the cookies of one site, follows redirects and sends forms. */
export class Browser {
  private readonly cookies = new Map<string, string>();

  /** @param site the origin of the pages that the browser requests, without a trailing slash. */
  constructor(private readonly site: string) {}

  async open(url: string, init: RequestInit = {}): Promise<Page> {
    if (!url.startsWith(`${this.site}/`)) return { url, html: '' };
    const cookie = [...this.cookies].map((pair) => pair.join('=')).join('; ');
    const response = await fetch(url, { ...init, redirect: 'manual', headers: { cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/max-age=0/i.test(line)) this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    const html = await response.text();
    const location = response.headers.get('location');
    return location === null ? { url, html } : this.open(new URL(location, url).href);
  }

  submit(page: Page, fields: Readonly<Record<string, string>>): Promise<Page> {
    const [, action] = /<form[^>]+action="([^"]+)"/.exec(page.html) ?? [];
    if (action === undefined) throw new Error(`No form at ${page.url}: ${page.html}`);
    return this.open(unescaped(action), { method: 'POST', body: new URLSearchParams(fields) });
  }

  follow(page: Page, link: RegExp): Promise<Page> {
    const links = [...page.html.matchAll(/<a[^>]+href="([^"]+)"[^>]*>([^]*?)<\/a>/g)];
    const [, href] = links.find(([, , text = '']) => link.test(text)) ?? [];
    if (href === undefined) throw new Error(`No link ${String(link)} at ${page.url}: ${page.html}`);
    return this.open(unescaped(href));
  }
}

const unescaped = (attribute: string): string => attribute.replaceAll('&amp;', '&');
