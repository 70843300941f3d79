"""Networks: HSTU, SASRec, DCN V2, and what they are made of."""
