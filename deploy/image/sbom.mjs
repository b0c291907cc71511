// Prints the list of the packages in node_modules (SBOM) in CycloneDX's form.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const sbom = JSON.parse(execFileSync('npm', ['sbom', '--sbom-format=cyclonedx', '--sbom-type=application'], { encoding: 'utf8', maxBuffer: 2 ** 26 }));

// npm takes the name of the folder.
sbom.metadata.component.name = JSON.parse(readFileSync('package.json', 'utf8')).name;
// npm copies what packages call the URL of their repository. `git@host:path` is none, so that the list would be invalid.
for (const { externalReferences } of sbom.components) {
  for (const reference of externalReferences) reference.url = reference.url.replace(/^([\w.-]+@[\w.-]+):(?!\/\/)/, 'ssh://$1/');
}

process.stdout.write(`${JSON.stringify(sbom, undefined, 2)}\n`);
