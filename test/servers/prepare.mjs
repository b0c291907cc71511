import { installAzurite } from './azurite.mjs';
import { installCycloneDx, isCycloneDxAvailable } from './cyclonedx.mjs';
import { installDuckDb, isDuckDbAvailable } from './duckdb.mjs';
import { installHelm, isHelmAvailable } from './helm.mjs';
import { installKeycloak, isKeycloakAvailable } from './keycloak.mjs';
import { installNatsServer, isNatsServerAvailable } from './nats-server.mjs';
import { MISSING_PROXIES } from './proxies.mjs';
import { installDecoder, isDecoderAvailable } from './opentelemetry-proto.mjs';
import { installOtelCollector, isOtelCollectorAvailable } from './otel-collector.mjs';
import { isPrometheusAvailable } from './prometheus.mjs';
import { installPrometheusOperator, isPrometheusOperatorAvailable } from './prometheus-operator.mjs';
import { FLASK_RECEIVER, POLARS } from './python-packages.mjs';
import { isReleaseAvailable, packRelease } from './release-1.0.0.mjs';
import { MISSING_RUNTIMES } from './runtimes.mjs';
import { installVersitygw, isVersitygwAvailable } from './versitygw.mjs';

/**
 * Installs the servers and tools that the integration tests use. For those that can't be installed, prints which tests
 * are left out.
 */
export default async function prepare() {
  await installAzurite();
  if (isDuckDbAvailable()) await installDuckDb();
  else console.log('Left out: the tests with DuckDB, for there is no Python with pip.');
  if (POLARS.areAvailable) await POLARS.install();
  else console.log('Left out: the tests with Polars, for there is no Python with pip.');
  if (isCycloneDxAvailable()) await installCycloneDx();
  else console.log('Left out: the check of the SBOM by CycloneDX, for there is no Python with pip.');
  if (isVersitygwAvailable()) await installVersitygw();
  else console.log('Left out: the tests against S3, for there is no Go to install versitygw with.');
  if (isNatsServerAvailable()) await installNatsServer();
  else console.log('Left out: the tests against NATS, for there is no Go to install nats-server with.');
  if (isKeycloakAvailable()) await installKeycloak();
  else console.log('Left out: the tests against Keycloak, for there is no Java, or no Maven to install it with.');
  if (isHelmAvailable()) await installHelm();
  else console.log('Left out: the tests of the Helm chart, for there is no Go to install Helm with, or no Python with pip for the schemas of Kubernetes.');
  for (const name of MISSING_PROXIES) console.log(`Left out: the tests behind ${name}, for it is missing; on Debian: apt-get install ${name}.`);
  if (isDecoderAvailable()) await installDecoder();
  else console.log('Left out: the test that reads exported traces as protobuf, for there is no Python with pip.');
  if (isOtelCollectorAvailable()) await installOtelCollector();
  else console.log('Left out: the test that sends traces to an OpenTelemetry Collector, for there is no Go to build it with.');
  if (isPrometheusOperatorAvailable()) await installPrometheusOperator();
  else console.log('Left out: the test of the objects of the Prometheus Operator, for there is no Go to build its types with.');
  if (FLASK_RECEIVER.areAvailable) await FLASK_RECEIVER.install();
  else console.log('Left out: the test of the webhook in Python, for there is no Python with pip.');
  if (!isPrometheusAvailable()) console.log('Left out: the tests of the rules and the dashboard, for Prometheus is missing; on Debian: apt-get install prometheus.');
  if (isReleaseAvailable()) await packRelease();
  else console.log('Left out: the test with release 1.0.0, for its commit is not in the history of this clone.');
  for (const name of MISSING_RUNTIMES) console.log(`Left out: the client in ${name}, for npm has none for this machine.`);
}
