-- The nine tables of clause 1.3, their keys, and the number of rows that a scale gives.
--
-- HISTORY has no primary key, as the specification has it. Money is DECIMAL, identifiers are integers, and text is
-- compared by bytes.
local schema = {}

schema.DISTRICTS = 10

-- In the order of creation: what a foreign key refers to comes first, and `stock` is the last.
schema.TABLES = { "warehouse", "district", "customer", "history", "item", "orders", "new_order", "order_line", "stock" }

local ADDRESS = [[%s_street_1 VARCHAR(20) NOT NULL, %s_street_2 VARCHAR(20) NOT NULL, %s_city VARCHAR(20) NOT NULL,
   %s_state CHAR(2) NOT NULL, %s_zip CHAR(9) NOT NULL]]

local COLUMNS = {
   warehouse = [[w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, ]] .. ADDRESS:gsub("%%s", "w") .. [[,
      w_tax DECIMAL(4,4) NOT NULL, w_ytd DECIMAL(12,2) NOT NULL, PRIMARY KEY (w_id)]],
   district = [[d_id TINYINT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10) NOT NULL, ]] ..
      ADDRESS:gsub("%%s", "d") .. [[, d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(12,2) NOT NULL,
      d_next_o_id INT NOT NULL, PRIMARY KEY (d_w_id, d_id)]],
   customer = [[c_id INT NOT NULL, c_d_id TINYINT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16) NOT NULL,
      c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, ]] .. ADDRESS:gsub("%%s", "c") .. [[,
      c_phone CHAR(16) NOT NULL, c_since DATETIME NOT NULL, c_credit CHAR(2) NOT NULL,
      c_credit_lim DECIMAL(12,2) NOT NULL, c_discount DECIMAL(4,4) NOT NULL, c_balance DECIMAL(12,2) NOT NULL,
      c_ytd_payment DECIMAL(12,2) NOT NULL, c_payment_cnt SMALLINT NOT NULL, c_delivery_cnt SMALLINT NOT NULL,
      c_data VARCHAR(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id),
      KEY customer_name (c_w_id, c_d_id, c_last, c_first)]],
   history = [[h_c_id INT NOT NULL, h_c_d_id TINYINT NOT NULL, h_c_w_id INT NOT NULL, h_d_id TINYINT NOT NULL,
      h_w_id INT NOT NULL, h_date DATETIME NOT NULL, h_amount DECIMAL(6,2) NOT NULL, h_data VARCHAR(24) NOT NULL]],
   item = [[i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_price DECIMAL(5,2) NOT NULL,
      i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id)]],
   orders = [[o_id INT NOT NULL, o_d_id TINYINT NOT NULL, o_w_id INT NOT NULL, o_c_id INT NOT NULL,
      o_entry_d DATETIME NOT NULL, o_carrier_id TINYINT, o_ol_cnt TINYINT NOT NULL, o_all_local TINYINT NOT NULL,
      PRIMARY KEY (o_w_id, o_d_id, o_id), KEY orders_customer (o_w_id, o_d_id, o_c_id, o_id)]],
   new_order = [[no_o_id INT NOT NULL, no_d_id TINYINT NOT NULL, no_w_id INT NOT NULL,
      PRIMARY KEY (no_w_id, no_d_id, no_o_id)]],
   order_line = [[ol_o_id INT NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id INT NOT NULL, ol_number TINYINT NOT NULL,
      ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL, ol_delivery_d DATETIME, ol_quantity TINYINT NOT NULL,
      ol_amount DECIMAL(6,2) NOT NULL, ol_dist_info CHAR(24) NOT NULL,
      PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)]],
   stock = [[s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity SMALLINT NOT NULL, s_dist_01 CHAR(24) NOT NULL,
      s_dist_02 CHAR(24) NOT NULL, s_dist_03 CHAR(24) NOT NULL, s_dist_04 CHAR(24) NOT NULL,
      s_dist_05 CHAR(24) NOT NULL, s_dist_06 CHAR(24) NOT NULL, s_dist_07 CHAR(24) NOT NULL,
      s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL, s_dist_10 CHAR(24) NOT NULL,
      s_ytd INT NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL, s_data VARCHAR(50) NOT NULL,
      PRIMARY KEY (s_w_id, s_i_id)]],
}

-- An order line does not refer to STOCK: that table is made last, which tells the loading threads that all are there.
local FOREIGN_KEYS = {
   district = "FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id)",
   customer = "FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)",
   history = "FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id), " ..
      "FOREIGN KEY (h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)",
   orders = "FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
   new_order = "FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
   order_line = "FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
   stock = "FOREIGN KEY (s_w_id) REFERENCES warehouse (w_id), FOREIGN KEY (s_i_id) REFERENCES item (i_id)",
}

-- Returns the numbers of rows that clause 4.3.3 gives, divided by the scale.
function schema.sizes(options)
   local scale = options.scale_items
   return {
      warehouses = options.warehouses,
      items = math.floor(100000 / scale),
      customers = math.floor(3000 / scale),
      delivered = math.floor(2100 / scale),
   }
end

-- Returns what stands behind ENGINE=.
local function engine_clause(options)
   if options.mysql_storage_engine ~= "" then
      return options.mysql_storage_engine
   end
   return options.engine .. " " .. options.table_options
end

-- Creates all tables. Errors: the server's, also when a table is there already.
function schema.create(connection, options)
   for _, name in ipairs(schema.TABLES) do
      local parts = COLUMNS[name]
      if options.fk == "all" and FOREIGN_KEYS[name] then
         parts = parts .. ", " .. FOREIGN_KEYS[name]
      end
      connection:query(("CREATE TABLE %s (%s) CHARACTER SET latin1 COLLATE latin1_bin ENGINE=%s"):format(name, parts,
         engine_clause(options)))
   end
end

-- Drops all tables, those that refer to others first.
function schema.drop(connection)
   for position = #schema.TABLES, 1, -1 do
      connection:query("DROP TABLE IF EXISTS " .. schema.TABLES[position])
   end
end

return schema
