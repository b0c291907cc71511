// The answers that the documented interface allows to random requests.

const UPLOAD = {
  methods: ['POST'],
  refusals: ['Invalid or missing query parameter.', 'Invalid request body.', 'Digest mismatch.', 'Invalid digest.', 'Invalid idempotency key.'],
  status: 200,
  success: (body) => exactly(body, { message: 'Data uploaded successfully.' }),
};

const command = (refusal, status, message, id) => ({
  methods: ['POST'],
  refusals: [refusal],
  status,
  success: (body) => exactly(body, { message }, id),
});

const list = (member, keys) => ({
  methods: ['GET', 'HEAD'],
  refusals: [],
  status: 200,
  success: (body) =>
    Object.keys(body).join() === member &&
    body[member].every((item) => Object.keys(item).join() === keys.join() && Object.values(item).every((value) => typeof value === 'string')),
});

/**
 * The eight operations by path: their methods, their error texts for 400, the status of a success, and a check of its
 * body.
 */
export const OPERATIONS = {
  '/ingestHistoricalLoadData/upload_historical': UPLOAD,
  '/ingestNowcastLoadData/upload_nowcast': UPLOAD,
  '/idpManagementBackend/assign-role': command('Invalid user_id or role_id.', 200, 'Role assigned successfully.'),
  '/idpManagementBackend/create-role': command('Invalid role_name or permissions.', 201, 'Role created successfully.', 'role_id'),
  '/idpManagementBackend/create-user': command('Invalid email or roles.', 201, 'User created successfully.', 'user_id'),
  '/idpManagementBackend/update-user': command('Invalid user_id or new_name.', 200, 'User updated successfully.'),
  '/idpManagementBackend/roles': list('roles', ['role_id', 'name']),
  '/idpManagementBackend/users': list('users', ['user_id', 'name', 'email']),
};

/** The service's other endpoints by path, with their methods. The bodies of their successful answers aren't checked. */
export const OTHERS = {
  '/docs': ['GET', 'HEAD'],
  '/docs-json': ['GET', 'HEAD'],
  '/health/live': ['GET', 'HEAD'],
  '/health/ready': ['GET', 'HEAD'],
  '/metrics': ['GET', 'HEAD'],
  '/idp/.well-known/openid-configuration': ['GET', 'HEAD'],
  '/idp/jwks': ['GET', 'HEAD'],
  '/idp/token': ['POST'],
};

const TEXTS = {
  403: 'Unauthorized.',
  404: 'Not found.',
  408: 'Request timeout.',
  409: 'Request in progress.',
  413: 'Payload too large.',
  415: 'Unsupported media type.',
  422: 'Idempotency key reused.',
  431: 'Request header fields too large.',
};

const exactly = (body, texts, id) =>
  body.status === 'success' &&
  body.message === texts.message &&
  (id === undefined || typeof body[id] === 'string') &&
  Object.keys(body).length === (id === undefined ? 2 : 3);

/**
 * The defect of an answer: how it differs from the documented interface. Undefined if it has none.
 *
 * @param {{ method: string, path: string, requestId?: string }} request `path` without query, as it was sent.
 * @param {{ status: number, headers: Map<string, string>, body: string }} answer
 */
export function defectOf({ method, path, requestId }, { status, headers, body }) {
  if (status >= 500) return 'a 5xx';
  const id = headers.get('x-request-id');
  if (!/^[A-Za-z0-9._-]{1,128}$/.test(id ?? '')) return 'no X-Request-Id';
  if (requestId !== undefined && ![400, 408, 431].includes(status) && id !== requestId) return 'another X-Request-Id';
  // Swagger UI also answers `/docs` with trailing slashes.
  const route = path.replace(/^http:\/\/[^/]*/, '').split('#', 1)[0].replace(/^\/docs\/+$/, '/docs');
  const operation = OPERATIONS[route];
  if (status < 400) return defectOfSuccess(method, route, operation, status, headers, body);
  if (!headers.get('content-type')?.startsWith('application/json')) return 'an error that is not JSON';
  if (method === 'HEAD' && body === '') return undefined;
  const parsed = parse(body);
  if (route === '/idp/token' && typeof parsed?.error_description === 'string') return undefined;
  if (typeof parsed?.error !== 'string' || Object.keys(parsed).length !== 1) return 'an error of another form';
  const texts = status === 400 ? ['Bad request.', ...(operation?.refusals ?? [])] : [TEXTS[status]];
  return texts.includes(parsed.error) ? undefined : 'an error text that is not documented';
}

function defectOfSuccess(method, route, operation, status, headers, body) {
  const served = (operation?.methods ?? OTHERS[route])?.includes(method);
  if (!served) return 'a success at an unknown path';
  // 304 is also right: it is the answer to `If-None-Match: *` (RFC 9110, 13.1.2), which random requests may contain.
  if (status === 304 && !operation) return undefined;
  if (status !== (operation?.status ?? 200)) return 'a success with another status';
  if (method === 'HEAD' || !operation) return undefined;
  const parsed = parse(body);
  if (!parsed || !operation.success(parsed)) return 'a success of another form';
  if (operation === UPLOAD && !headers.get('x-upload-id')) return 'no X-Upload-Id';
  return undefined;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
