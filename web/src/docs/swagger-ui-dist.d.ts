/** The part of Swagger UI that this page uses. The package has no types. */
declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  /** Its parent decides what it is given. */
  export type Component = (props: any) => unknown;
  export interface System {
    React: { createElement(component: Component | string, props: object, ...children: unknown[]): unknown };
  }
  export type Plugin = () => {
    wrapComponents: Record<string, (Original: Component, system: System) => Component>;
  };
  export default function SwaggerUI(options: Record<string, unknown>): void;
}
