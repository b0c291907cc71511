export interface OAuthFlow {
  readonly authorizationUrl?: string;
  readonly tokenUrl: string;
}

interface InitOptions {
  readonly swaggerDoc: { readonly components: { readonly securitySchemes: { readonly client: { readonly flows: Readonly<Record<string, OAuthFlow>> } } } };
  readonly customOptions: {
    readonly oauth2RedirectUrl?: string;
    readonly initOAuth: { readonly clientId: string; readonly usePkceWithAuthorizationCodeGrant: boolean };
  };
}

/**
 * Reads the configuration of the service's Swagger UI: the login flows that its button *Authorize* offers, and their
 * options.
 */
export async function swaggerUiOptions(baseUrl: string): Promise<InitOptions['customOptions'] & { readonly flows: Readonly<Record<string, OAuthFlow>> }> {
  const script = await (await fetch(`${baseUrl}/docs/swagger-ui-init.js`)).text();
  const [, json = ''] = /^ *let options = (\{[^]*?^\});$/m.exec(script) ?? [];
  const { swaggerDoc, customOptions } = JSON.parse(json) as InitOptions;
  return { ...customOptions, flows: swaggerDoc.components.securitySchemes.client.flows };
}
