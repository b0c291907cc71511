import { installVersitygw, isVersitygwAvailable } from '../servers/versitygw.mjs';

/** Installs what the tests against real object stores start, or says which of them are left out. */
export default async function prepare(): Promise<void> {
  if (isVersitygwAvailable()) await installVersitygw();
  else console.log('Left out: the tests against S3, for there is no Go to install versitygw with.');
}
