export * from "./controls";
export * from "./DataTable";
export * from "./display";
export * from "./export";
export * from "./ExportMenu";
export * as format from "./format";
export * from "./icons";
export * from "./overlay";
export * from "./VisibleText";
