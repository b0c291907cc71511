export function isCycloneDxAvailable(): boolean;
export function installCycloneDx(): Promise<void>;
export function checkCycloneDx(file: string): Promise<string>;
