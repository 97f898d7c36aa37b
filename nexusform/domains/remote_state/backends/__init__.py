"""Remote state backends: azurerm, http, s3 and postgres."""
