// Bundles the console into dist/, which the server's binary includes. Run it with `npm ci && npm run build`.

import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

mkdirSync("dist", { recursive: true });

const result = await build({
  entryPoints: { console: "src/main.js" },
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  legalComments: "none",
  metafile: true,
  outdir: "dist",
});
for (const file of ["index.html", "icon.svg"]) copyFileSync(`src/${file}`, `dist/${file}`);

// The licence of each package that has a file in the bundle.
const inputs = Object.keys(result.metafile.inputs);
const packages = new Set(inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]).filter(Boolean));
const texts = [...packages].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file || !existsSync(`${folder}/${file}`)) throw new Error(`${name} has no licence text`);
  return `${name} ${version} (${license})\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
});
const head = "Rowmill's console contains these libraries.\n";
writeFileSync("dist/licenses.txt", [head, ...texts].join(`\n${"-".repeat(78)}\n\n`));
