import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `make web` writes the page into the Python package; the server finds it there.
export default defineConfig({
  base: "./",
  plugins: [react()],
  resolve: { alias: { "~": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: "../src/assay/serve/page/dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // the content security policy allows no inline code
    license: { fileName: "licenses.md" },
    reportCompressedSize: false,
  },
  // `npm run dev` beside `assay serve --port 8321`.
  server: { proxy: { "/v1": process.env.ASSAY_SERVER ?? "http://127.0.0.1:8321" } },
});
