"""The studio: a local web page over run folders. Starlette and uvicorn are loaded only when it is used."""
