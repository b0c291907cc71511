/** A page with a form, or the target of a redirect away from Keycloak, whose `html` is empty. */
export interface Page {
  readonly url: string;
  readonly html: string;
}

/** A minimal browser for login pages: cookies of one site, redirects and forms. */
export class Browser {
  private readonly cookies = new Map<string, string>();

  /** @param site the origin of the pages. A redirect to any other origin isn't followed. */
  constructor(private readonly site: string) {}

  /** Opens a page and follows redirects. A page of another origin isn't requested. */
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

  /** Fills in the page's form and sends it. */
  submit(page: Page, fields: Readonly<Record<string, string>>): Promise<Page> {
    const [, action] = /<form[^>]+action="([^"]+)"/.exec(page.html) ?? [];
    if (action === undefined) throw new Error(`No form at ${page.url}: ${page.html}`);
    return this.open(unescaped(action), { method: 'POST', body: new URLSearchParams(fields) });
  }

  /** Follows the page's link with this text. */
  follow(page: Page, link: RegExp): Promise<Page> {
    const links = [...page.html.matchAll(/<a[^>]+href="([^"]+)"[^>]*>([^]*?)<\/a>/g)];
    const [, href] = links.find(([, , text = '']) => link.test(text)) ?? [];
    if (href === undefined) throw new Error(`No link ${String(link)} at ${page.url}: ${page.html}`);
    return this.open(unescaped(href));
  }
}

const unescaped = (attribute: string): string => attribute.replaceAll('&amp;', '&');
