// Small additions to Swagger UI, which has no options for them. Swagger UI may render its page again at any time, so
// elements are looked up only when they are needed.

const uploads = new Set(['multipart/form-data', 'application/octet-stream']);

/**
 * Sets the value of a field as if a person had typed it and then left the field. React doesn't notice a value that is
 * set in another way. Swagger UI takes a value over only after a while, or when the field is left.
 */
function type(field, value) {
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, value);
  field.dispatchEvent(new Event('input', { bubbles: true }));
  field.dispatchEvent(new Event('focusout', { bubbles: true }));
}

const operationOf = (element) => element.closest('.opblock');
const fileField = (operation) => operation.querySelector('input[type=file]');
const touched = new WeakSet();

/** Remembers the fields that a person changed: choosing a file fills in its name only if no name was typed. */
document.addEventListener('input', ({ target, isTrusted }) => isTrusted && touched.add(target), true);

/** The example of an upload's id in the OpenAPI document. */
const EXAMPLE_ID = '0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10';
let lastUploadId;
const ownFetch = window.fetch;
/** Remembers the id of the last upload, which `fillInUploadId` fills in. */
window.fetch = async (...parameters) => {
  const answer = await ownFetch(...parameters);
  lastUploadId = answer.headers.get('X-Upload-Id') ?? lastUploadId;
  return answer;
};

/** Replaces the example of an upload's id, which nobody has, with the id of the last upload. Replaces no other id. */
function fillInUploadId() {
  if (lastUploadId === undefined) return;
  for (const field of document.querySelectorAll('tr[data-param-name=upload_id] input:not([disabled])')) {
    if (field.value === EXAMPLE_ID) type(field, lastUploadId);
  }
}

document.addEventListener('change', ({ target }) => {
  if (target instanceof HTMLSelectElement && target.closest('.body-param-content-type')) forgetBody(operationOf(target));
  if (!(target instanceof HTMLInputElement) || target.type !== 'file') return;
  const operation = operationOf(target);
  operation?.querySelector('.no-file')?.remove();
  const name = operation?.querySelector('tr[data-param-name=filename] input');
  const [file] = target.files;
  if (name && file && !touched.has(name)) type(name, file.name);
});

document.addEventListener(
  'click',
  (event) => {
    const { target } = event;
    if (!(target instanceof Element)) return;
    const link = target.closest('.info a[href^="#/"]');
    if (link) {
      event.preventDefault();
      showOperation(decodeURIComponent(link.hash).split('/').at(-1));
    }
    const button = target.closest('.btn.execute');
    if (button) refuseWithoutFile(event, button);
  },
  true,
);

/**
 * Makes Swagger UI show the example of the content type that was just chosen. Otherwise Swagger UI would keep the
 * fields of a form as the body, although another content type was chosen.
 */
function forgetBody(operation) {
  const path = operation.querySelector('[data-path]').dataset.path;
  const method = operation.querySelector('.opblock-summary-method').textContent.toLowerCase();
  window.ui.getSystem().oas3Actions.setRequestBodyValue({ value: undefined, pathMethod: [path, method] });
}

/** Opens an operation in Swagger UI and scrolls to it. Called when a person follows a link in the API's description. */
function showOperation(id) {
  const operation = document.querySelector(`.opblock[id$="-${CSS.escape(id)}"]`);
  if (!operation) return;
  if (!operation.classList.contains('is-open')) operation.querySelector('.opblock-summary-control').click();
  operation.scrollIntoView({ behavior: 'smooth' });
}

/**
 * Refuses to send an upload if its content type needs a file and none is chosen. Otherwise Swagger UI would mark the
 * missing file by colour at most, and send an empty body.
 */
function refuseWithoutFile(event, button) {
  const operation = operationOf(button);
  operation.querySelector('.no-file')?.remove();
  const field = fileField(operation);
  if (!field || field.files.length > 0 || !uploads.has(operation.querySelector('.body-param-content-type select')?.value)) return;
  event.stopPropagation();
  const word = document.createElement('p');
  word.className = 'no-file';
  word.setAttribute('role', 'alert');
  word.textContent = 'No file was chosen. Choose one above, or send application/json without a file.';
  button.parentElement.before(word);
  field.focus();
}

/**
 * Fills in the id of the last upload. Gives an accessible name to controls that Swagger UI leaves without one. When the
 * dialog "Authorize" opens, puts the focus in the field for the secret or token.
 */
function complete() {
  fillInUploadId();
  for (const button of document.querySelectorAll('.close-modal:not([aria-label])')) button.setAttribute('aria-label', 'Close');
  for (const select of document.querySelectorAll('.examples-select-element:not([aria-label])')) select.setAttribute('aria-label', 'Example');
  for (const field of document.querySelectorAll('input[type=file]:not([aria-label])')) field.setAttribute('aria-label', 'File');
  for (const field of document.querySelectorAll('tr[data-param-name] :is(input, select):not([aria-label])')) field.setAttribute('aria-label', field.closest('tr').dataset.paramName);
  for (const field of document.querySelectorAll('tr[data-property-name] input:not([aria-label])')) field.setAttribute('aria-label', field.closest('tr').dataset.propertyName);
  for (const field of document.querySelectorAll('textarea.body-param__text:not([aria-label])')) field.setAttribute('aria-label', 'Request body');
  const dialog = document.querySelector('.dialog-ux:not([data-focused])');
  if (!dialog) return;
  dialog.dataset.focused = '';
  dialog.querySelector('input[data-name=clientSecret], #auth-bearer-value')?.focus();
}

new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
