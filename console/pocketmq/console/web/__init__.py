"""JSON APIs over HTTP: their operations, OpenAPI document, errors, and who may ask."""
