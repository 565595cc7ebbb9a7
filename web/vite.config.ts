import { appendFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const OUT = fileURLToPath(new URL("../src/assay/serve/page/dist/", import.meta.url));
const BUNDLED = fileURLToPath(
  new URL("./node_modules/swagger-ui-dist/swagger-ui-es-bundle.js.LICENSE.txt", import.meta.url),
);

/** Writes each text file a second and a third time, compressed: the server sends these bytes as they are. */
function compress(): Plugin {
  return {
    name: "compress",
    apply: "build",
    closeBundle() {
      appendFileSync(`${OUT}licenses.md`, `\n## Inside swagger-ui-dist\n\n${readFileSync(BUNDLED, "utf8")}`);
      for (const name of readdirSync(OUT, { recursive: true, encoding: "utf8" })) {
        if (!/\.(js|css|html|svg)$/.test(name)) continue;
        const data = readFileSync(OUT + name);
        writeFileSync(`${OUT}${name}.br`, brotliCompressSync(data, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
        writeFileSync(`${OUT}${name}.gz`, gzipSync(data, { level: 9 }));
      }
    },
  };
}

// `make web` writes the page into the Python package; the server finds it there.
export default defineConfig({
  base: "./",
  plugins: [react(), compress()],
  resolve: { alias: { "~": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // the content security policy allows no inline code
    license: { fileName: "licenses.md" },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1600, // Swagger UI, which only /v1/docs loads
    rolldownOptions: { input: ["index.html", "v1/docs.html"], checks: { bundlerTimings: false, pluginTimings: false } },
  },
  // `npm run dev` beside `assay serve --port 8321`.
  server: { proxy: { "/v1": process.env.ASSAY_SERVER ?? "http://127.0.0.1:8321" } },
});
