import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const OUT = fileURLToPath(new URL("../src/assay/serve/page/dist/", import.meta.url));

/** Puts the script and the style into the document, and their hashes into its policy: nothing else runs, and nothing is loaded. */
function singleFile(): Plugin {
  return {
    name: "single-file",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      let script = "";
      let style = "";
      for (const [name, file] of Object.entries(bundle)) {
        if (file.type === "chunk") script += file.code;
        else if (name.endsWith(".css")) style += String(file.source);
        if (!name.endsWith(".html")) delete bundle[name];
      }
      const page = bundle["report.html"];
      if (page?.type !== "asset") throw new Error("the report has no document");
      script = script.replaceAll("__VITE_PRELOAD__", "void 0"); // there is no other file to load
      script = script.replaceAll("</script", "<\\/script").replaceAll("<!--", "\\x3c!--");
      if (/@import|url\((?!["']?data:)/.test(style)) throw new Error("the style of the report loads a file");
      const hash = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
      const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'`;
      page.source = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/g, "")
        .replace("__POLICY__", () => policy)
        .replace("</head>", () => `<style>${style}</style></head>`)
        .replace("</body>", () => `<script type="module">${script}</script></body>`);
    },
  };
}

// `make web` writes the template of `assay report` beside the page. The command puts the data into it.
export default defineConfig({
  base: "./",
  plugins: [react(), singleFile()],
  resolve: { alias: { "~": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: OUT,
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 1_000_000,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rolldownOptions: {
      input: fileURLToPath(new URL("./report.html", import.meta.url)),
      output: { codeSplitting: false },
      checks: { bundlerTimings: false, pluginTimings: false },
    },
  },
});
