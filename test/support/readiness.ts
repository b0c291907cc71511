export interface Findings {
  readonly status: number;
  readonly problems?: string[];
  readonly warnings?: string[];
}

export async function readiness(url: string): Promise<Findings> {
  const response = await fetch(`${url}/health/ready`);
  const { details } = (await response.json()) as { details: { identity_provider: object } };
  const { problems, warnings } = details.identity_provider as Partial<Findings>;
  return { status: response.status, ...(problems && { problems }), ...(warnings && { warnings }) };
}
