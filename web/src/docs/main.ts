/** The page of /v1/docs: Swagger UI over the OpenAPI document of this server. */

import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";
import "./docs.css";
import { repair, withoutNestedLinks } from "./accessible";
import { withoutHistory, withoutKey } from "./plugins";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();

const root = document.getElementById("docs");
if (root) repair(root);

SwaggerUI({
  dom_id: "#docs",
  url: "openapi.json",
  plugins: [withoutKey, withoutHistory, withoutNestedLinks],
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  persistAuthorization: false, // a key stays in the memory of this tab
  queryConfigEnabled: false, // an address cannot name another document
  validatorUrl: null, // no other server sees the document
});
